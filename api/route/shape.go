package route

import (
	"net/url"
	"reflect"
	"slices"

	"moss/api/apiver"
	"moss/engine/fault"
)

// Kind is the form of a parameter's value.
type Kind string

// The kinds of parameters.
const (
	Text    Kind = "text"
	Bool    Kind = "bool"
	Int     Kind = "int"
	Time    Kind = "time"    // seconds, sec.nanos, RFC 3339 or a Go duration before now
	Filters Kind = "filters" // JSON, a map of lists of strings or of maps to booleans
	JSON    Kind = "json"    // JSON of another form
)

// Param is a parameter of a route's query, or a header that it reads.
type Param struct {
	Name     string
	Kind     Kind
	Versions apiver.Range // zero: every version that has the route. In others the parameter is not read.
	Many     bool         // may be given several times
	Needed   bool         // without it the answer is 400
	Header   bool
	Values   []Value // of filters their keys, of others the words that are taken; none: any
	About    string  // one line for people
}

// Value is a key of filters, or a word that a parameter may have.
type Value struct {
	Name     string
	Versions apiver.Range // zero: every version. In others it is refused.
}

// Shape says what a route takes and gives, for those who describe or check the API.
type Shape struct {
	About  string // one line for people
	Params []Param
	Later  []Later
	// In and Out are the wire types of the bodies, nil where the body is none, a stream or no JSON.
	In, Out reflect.Type
	// InVersions are those that read a body; zero: every one.
	InVersions apiver.Range
	// InMedia and OutMedia are the media types of bodies, application/json where empty and there is a type.
	InMedia, OutMedia string
	// Stream: the answer is a sequence of values of Out, one per line.
	Stream bool
	// Codes are the statuses that it answers with, those of the documents first. Every route has besides 500, 503 while the
	// engine shuts down, and 400 for a query that cannot be parsed or a version that is not served.
	Codes []int
	// BadSince is the first version whose document lists 400 for the route. Versions before it answer 500 to what is
	// invalid, since they know no other status for it (document 2, 4.0). Zero: all versions answer 400.
	BadSince apiver.Version
	// Refusal is the media type of errors where they are lines of text at every version; empty: they have the version's form.
	Refusal string
}

// Later is a query parameter that the route has in versions that moss does not serve. With a value it is refused: to leave it
// out would answer what was not asked for.
type Later struct {
	Name  string
	Since apiver.Version
	Fine  []string // values that change nothing
}

// refuseQuery returns fault.Invalid if a request of a version has the parameter with a value.
func (p *Later) refuseQuery(query url.Values, version apiver.Version) error {
	for _, value := range query[p.Name] {
		if value != "" && version < p.Since && !slices.Contains(p.Fine, value) {
			return fault.Invalid("%s is of API version %s and not supported by this engine", p.Name, p.Since)
		}
	}
	return nil
}

// Since returns the parameter as one that versions before first do not have.
func (p Param) Since(first apiver.Version) Param {
	p.Versions.Since = first
	return p
}

// Until returns the parameter as one that versions after last do not have.
func (p Param) Until(last apiver.Version) Param {
	p.Versions.Until = last
	return p
}

// findParam returns the declared parameter, or header, of a name; nil if there is none.
func findParam(params []Param, name string, header bool) *Param {
	for i := range params {
		if p := &params[i]; p.Header == header && p.Name == name {
			return p
		}
	}
	return nil
}

// refuseLate refuses the filters that a version does not have: to leave them out would answer with what was not asked for.
// Those that no version has are for whoever knows their meaning to refuse.
func (p *Param) refuseLate(filters map[string][]string, version apiver.Version) error {
	for _, value := range p.Values {
		if len(filters[value.Name]) > 0 && !value.Versions.Has(version) {
			return fault.Invalid("Invalid filter '%s' at version %s: it is there from %s on", value.Name, version, value.Versions.Since)
		}
	}
	return nil
}
