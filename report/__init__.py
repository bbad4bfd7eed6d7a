"""Pictures of documents. These modules build rich renderables or text; only cli/ prints them."""
