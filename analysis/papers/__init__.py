"""The papers beside the main study: one module each, with its experiments, numbers and figures."""
