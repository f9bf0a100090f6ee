// Package docs holds the documents that the engine gives out itself. They lie here because people read them here.
package docs

import _ "embed" // for the document

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the OpenAPI document of the newest version. Nobody may change it.
func OpenAPI() []byte { return openAPI }
