"""The description of the service: OpenAPI 3.1, its schemas those of the documents."""
