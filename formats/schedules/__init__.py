"""Foreign forms of schedules: MSCCL's XML, action lists as JSON, drawings as SVG."""
