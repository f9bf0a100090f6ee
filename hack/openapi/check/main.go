// Command openapicheck holds answers of an engine against the OpenAPI document.
//
//	openapicheck docs/openapi.yaml <LIST
//
// A line of LIST is a method, a path of the document, a status, and the file with the body. A body of several JSON values is
// a stream, each of which must be as the document says. Fields that the document does not have are wrong too. It prints one
// line per finding and exits with 1 if there is any. It is a module of its own: nothing else needs the library that knows
// OpenAPI.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: openapicheck DOCUMENT <LIST")
		os.Exit(2)
	}
	findings, checked, err := run(context.Background(), os.Args[1], os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapicheck:", err)
		os.Exit(2)
	}
	for _, finding := range findings {
		fmt.Println(finding)
	}
	fmt.Printf("openapicheck: %d values, %d findings\n", checked, len(findings))
	if len(findings) > 0 || checked == 0 {
		os.Exit(1)
	}
}

// run reads the list and returns what is wrong, and how many values it looked at.
func run(ctx context.Context, document string, in io.Reader) (findings []string, checked int, err error) {
	doc, err := loadDocument(ctx, document)
	if err != nil {
		return nil, 0, err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		parts := strings.Fields(lines.Text())
		if len(parts) != 4 {
			return nil, 0, fmt.Errorf("%q: want METHOD PATH STATUS FILE", lines.Text())
		}
		schema, err := findSchema(doc, parts[0], parts[1], parts[2])
		if err != nil {
			findings = append(findings, fmt.Sprintf("%s: %v", lines.Text(), err))
			continue
		}
		wrong, n, err := checkValues(schema, parts[3])
		if err != nil {
			return nil, 0, err
		}
		checked += n
		for _, w := range wrong {
			findings = append(findings, strings.Join(parts[:3], " ")+": "+w)
		}
	}
	return findings, checked, lines.Err()
}

// loadDocument reads a document that must be valid, and takes fields out of its objects that it does not name.
func loadDocument(ctx context.Context, file string) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, schema := range doc.Components.Schemas {
		if s := schema.Value; len(s.Properties) > 0 && s.AdditionalProperties.Schema == nil {
			no := false
			s.AdditionalProperties.Has = &no
		}
	}
	return doc, nil
}

// findSchema returns the schema of an answer, nil if the answer has no JSON.
func findSchema(doc *openapi3.T, method, path, status string) (*openapi3.Schema, error) {
	item := doc.Paths.Value(path)
	if item == nil {
		return nil, errors.New("the document has no such path")
	}
	operation := item.GetOperation(method)
	if operation == nil {
		return nil, errors.New("the document has no such method")
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		return nil, err
	}
	answer := operation.Responses.Status(code)
	if answer == nil {
		return nil, errors.New("the document has no such status")
	}
	media := answer.Value.Content["application/json"]
	if media == nil {
		return nil, nil
	}
	return media.Schema.Value, nil
}

// checkValues compares each value of a file with a schema; without one the file must hold no JSON.
func checkValues(schema *openapi3.Schema, file string) (wrong []string, n int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // It was read.
	values := json.NewDecoder(f)
	for {
		var value any
		err := values.Decode(&value)
		if errors.Is(err, io.EOF) {
			break
		}
		n++
		switch {
		case schema == nil && err != nil: // a text or an archive
			return nil, 1, nil
		case schema == nil:
			return []string{"the answer is JSON, the document has none"}, n, nil
		case err != nil:
			return append(wrong, "no JSON: "+err.Error()), n, nil
		}
		if err := schema.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsResponse()); err != nil {
			wrong = append(wrong, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	if n == 0 && schema != nil {
		wrong = append(wrong, "no body")
	}
	return wrong, n, nil
}
