package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const document = "../../../docs/openapi.yaml"

func TestDocumentIsValid(t *testing.T) {
	doc, err := loadDocument(t.Context(), document)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Paths.Len() < 60 || len(doc.Components.Schemas) < 60 {
		t.Errorf("the document has %d paths and %d schemas", doc.Paths.Len(), len(doc.Components.Schemas))
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct{ call, body, want string }{
		{"POST /containers/{id}/wait 200", `{"StatusCode":3}`, ""},
		{"POST /containers/{id}/wait 200", `{"StatusCode":"3"}`, "value must be an integer"},
		{"POST /containers/{id}/wait 200", `{}`, `property "StatusCode" is missing`},
		{"POST /containers/{id}/wait 200", `{"StatusCode":3,"Other":1}`, `property "Other" is unsupported`},
		{"POST /containers/{id}/wait 200", ``, "no body"},
		{"POST /containers/{id}/wait 418", `{}`, "no such status"},
		{"GET /containers/{id}/wait 200", `{}`, "no such method"},
		{"GET /nowhere 200", `{}`, "no such path"},
		{"GET /info 500", `{"message":"x"}`, ""},
		{"GET /info 500", `x`, "no JSON"},
		{"GET /_ping 200", `OK`, ""},
		{"GET /_ping 200", `{}`, "the document has none"},
		{"GET /events 200", `{"Type":"image","Action":"pull","Actor":{"ID":"x","Attributes":{}}}{"Type":"x"}`, "is not one of the allowed values"},
	} {
		file := filepath.Join(t.TempDir(), "body")
		if err := os.WriteFile(file, []byte(tc.body), 0o600); err != nil {
			t.Fatal(err)
		}
		findings, _, err := run(t.Context(), document, strings.NewReader(tc.call+" "+file+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(findings, "; ")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s %s: %q, want %q", tc.call, tc.body, got, tc.want)
		}
	}
	if _, _, err := run(t.Context(), document, strings.NewReader("x\n")); err == nil {
		t.Error("a line of one word is taken")
	}
}
