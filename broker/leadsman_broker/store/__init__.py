"""Where accepted work lives: one interface, one conformance suite, several stores."""
