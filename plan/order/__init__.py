"""Plans of kind ``order``: candidates, cross-validation, figures, advice, the document and its proof."""
