"""Pictures of the studio for the documents, each made by playing its scene on a real one: `make screenshots`."""
