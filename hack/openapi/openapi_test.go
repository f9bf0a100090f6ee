package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/handler"
	"moss/api/route"
	"moss/docs"
)

// TestCommitted fails when the routes, the wire structs or the words have changed and the documents have not.
func TestCommitted(t *testing.T) {
	files, err := generateFiles()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what the code gives: run go run ./hack/openapi; first difference:\n%s", name, difference(got, want))
		}
	}
	if !bytes.Equal(docs.OpenAPI(), files["openapi.yaml"]) {
		t.Error("the engine gives out another document")
	}
}

// TestEveryAnswerIsChecked fails when an endpoint that shows something is not asked in the test that holds a running engine's
// answers against the document.
func TestEveryAnswerIsChecked(t *testing.T) {
	const file = "../../tests/93-openapi.bats"
	test, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, r := range handler.New(handler.Services{}).Routes() {
		if r.Method != http.MethodGet || r.Shape.Out == nil || !r.Versions.Has(apiver.Max) {
			continue
		}
		path, _ := pathTemplate(r.Path)
		if !strings.Contains(string(test), "see "+path+" ") && !strings.Contains(string(test), "see "+path+"\n") &&
			!strings.Contains(string(test), "see '"+path+"' ") {
			t.Errorf("%s does not ask GET %s", file, path)
		}
		asked++
	}
	if asked < 15 {
		t.Errorf("%d endpoints show something, want more", asked)
	}
}

// difference shows the first line that two texts do not share.
func difference(got, want []byte) string {
	a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "got  " + a[i] + "\nwant " + b[i]
		}
	}
	return "one of them ends earlier"
}

func TestSameEveryTime(t *testing.T) {
	first, err := generateFiles()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		again, err := generateFiles()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(first, again) {
			t.Fatal("the documents differ from run to run")
		}
	}
}

type inner struct {
	Shared string
	Only   int `api:"1.24-"`
}

type thing struct {
	inner
	Shared  *bool  `json:",omitempty"`
	Renamed string `json:"other"`
	Gone    string `json:"-"`
	Old     string `api:"-1.20"`
	When    time.Time
	List    []inner
	Byname  map[string]*inner
	Pair    [2]uint
	Any     any
	Kept    []int `json:",omitempty" always:"1.25-"`
	Lost    []int `json:",omitempty" always:"-1.24"`
}

func TestSchema(t *testing.T) {
	w, err := readWords("thing\tA thing.\ninner\tWhat is in it.\nthing.other\tone of two\ta \"\"\n")
	if err != nil {
		t.Fatal(err)
	}
	routes := []route.Route{{Method: "GET", Path: "/x/:id", Shape: route.Shape{
		In: reflect.TypeFor[inner](), Out: reflect.TypeFor[[]thing](), Codes: []int{200, 404},
	}}}
	s, err := newSchemas(routes, w, apiver.Max)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.schemaOf(reflect.TypeFor[thing](), false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.schemaOf(reflect.TypeFor[inner](), true); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	appendYAML(&b, s.componentSchemas(), 0)
	const want = `inner:
  type: object
  description: What is in it.
  properties:
    Shared:
      type: string
    Only:
      type: integer
      format: int64
  required:
    - Shared
    - Only
innerInput:
  type: object
  description: What is in it.
  properties:
    Shared:
      type: string
    Only:
      type: integer
      format: int64
thing:
  type: object
  description: A thing.
  properties:
    Only:
      type: integer
      format: int64
    Shared:
      type: boolean
    other:
      type: string
      description: one of two
      enum:
        - a
        - ""
    When:
      type: string
      format: date-time
    List:
      type: array
      items:
        $ref: "#/components/schemas/inner"
      nullable: true
    Byname:
      type: object
      additionalProperties:
        nullable: true
        allOf:
          - $ref: "#/components/schemas/inner"
      nullable: true
    Pair:
      type: array
      items:
        type: integer
        minimum: 0
      minItems: 2
      maxItems: 2
    Any:
      nullable: true
    Kept:
      type: array
      items:
        type: integer
        format: int64
      nullable: true
    Lost:
      type: array
      items:
        type: integer
        format: int64
  required:
    - Only
    - other
    - When
    - List
    - Byname
    - Pair
    - Any
    - Kept
`
	if got := b.String(); got != want {
		t.Errorf("schemas:\n%s\nwant:\n%s", got, want)
	}
}

func TestWords(t *testing.T) {
	for _, tc := range []struct{ text, fails string }{
		{"a\tb\n", ""},
		{"# a comment\n\na\tb\tc d\n", ""},
		{"a\n", "want a name, a tab and words"},
		{"a\tb\tc\td\n", "want a name, a tab and words"},
		{"a\tb\na\tc\n", "a is there twice"},
	} {
		_, err := readWords(tc.text)
		if tc.fails == "" && err != nil || tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)) {
			t.Errorf("readWords(%q): %v, want %q", tc.text, err, tc.fails)
		}
	}
	w, err := readWords("a\tb\nc\td\n")
	if err != nil {
		t.Fatal(err)
	}
	if w.textOf("a") != "b" || !reflect.DeepEqual(w.unusedNames(), []string{"c"}) {
		t.Errorf("of a = %q, unused %q, want b and c", w.textOf("a"), w.unusedNames())
	}
}

func TestScalar(t *testing.T) {
	for _, tc := range []struct {
		value any
		want  string
	}{
		{"plain words", "plain words"},
		{"application/json", "application/json"},
		{"yes", `"yes"`},
		{"No", `"No"`},
		{"1.24", `"1.24"`},
		{"", `""`},
		{"a: b", `"a: b"`},
		{"a #b", `"a #b"`},
		{"- a", `"- a"`},
		{`say "x"`, `"say \"x\""`},
		{true, "true"},
		{7, "7"},
	} {
		if got := scalarText(tc.value); got != tc.want {
			t.Errorf("scalar(%v) = %s, want %s", tc.value, got, tc.want)
		}
	}
}
