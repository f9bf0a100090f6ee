package handler

import (
	"net/http"

	"moss/api/route"
	"moss/docs"
)

// openAPI gives out the document that says what the newest version has. It is the same at every version.
func openAPI(c *route.Call) error { return c.Bytes(http.StatusOK, "application/yaml", docs.OpenAPI()) }
