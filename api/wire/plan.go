package wire

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"moss/api/apiver"
)

// field is one field of a struct as the wire sees it.
type field struct {
	name      string
	key       string // the name, quoted, with its colon
	index     []int
	versions  apiver.Range
	omitEmpty bool
	always    apiver.Range // versions whose answers have it without a value too
	plan      *plan
}

// plan is all that encoding and decoding need to know of a type.
type plan struct {
	kind   reflect.Kind
	fields []field // of a struct
	elem   *plan   // of a pointer, slice, array or map
	// custom marks a type that encodes itself.
	custom custom
	// ranged marks a type that holds a field with a range, at any depth.
	ranged bool
	// size is how many bytes the last value of the type took as a whole answer.
	size atomic.Int64
}

// custom says how a type encodes itself.
type custom int

const (
	notCustom  custom = iota
	byTime            // it is a time.Time
	byJSON            // it is a json.Marshaler or encoding.TextMarshaler
	byEncoding        // encoding/json knows it better: bytes, numbers as text, maps with odd keys
)

// planner makes plans and keeps them: types are few and live as long as the process.
type planner struct {
	mu   sync.Mutex // guards plans
	done map[reflect.Type]*plan
}

// plans is the one planner. It is a cache, as encoding/json has one: it holds what follows from the types of this program
// and nothing else.
var plans = &planner{done: map[reflect.Type]*plan{}}

// planOf returns the plan of a type. A malformed tag is a mistake in this program and panics; the test of all wire types
// finds it.
func (p *planner) planOf(t reflect.Type) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.planOfLocked(t)
}

func (p *planner) planOfLocked(t reflect.Type) *plan {
	if known, ok := p.done[t]; ok {
		return known
	}
	made := &plan{kind: t.Kind(), custom: customOf(t)}
	p.done[t] = made // before its parts: a type may hold itself
	if made.custom != notCustom {
		return made
	}
	switch t.Kind() {
	case reflect.Struct:
		made.fields = p.fieldsLocked(t, nil)
		for i := range made.fields {
			f := &made.fields[i]
			made.ranged = made.ranged || f.versions != apiver.Range{} || f.plan.ranged
		}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		made.elem = p.planOfLocked(t.Elem())
		made.ranged = made.elem.ranged
	case reflect.Interface:
		made.ranged = true // what it will hold is not known
	default:
	}
	return made
}

// fieldsLocked lists the fields of a struct, those of embedded structs among them in their place. A field of every version hides
// those of its name in embedded structs.
func (p *planner) fieldsLocked(t reflect.Type, path []int) []field {
	var fields []field
	own := map[string]bool{}
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(append([]int{}, path...), i)
		tag, tagged := sf.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct {
			fields = append(fields, p.fieldsLocked(sf.Type, index)...)
			continue
		}
		if !sf.IsExported() || tag == "-" {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		versions, err := apiver.ParseRange(sf.Tag.Get("api"))
		always, other := apiver.ParseAlways(sf.Tag)
		if err = cmp.Or(err, other); err != nil {
			panic("wire: " + t.String() + "." + sf.Name + ": " + err.Error())
		}
		own[name] = versions == apiver.Range{}
		fields = append(fields, field{
			name: name, key: string(appendString(nil, name)) + ":", index: index, versions: versions,
			omitEmpty: strings.Contains(options, "omitempty"), always: always, plan: p.planOfLocked(sf.Type),
		})
	}
	return slices.DeleteFunc(fields, func(f field) bool { return len(f.index) > len(path)+1 && own[f.name] })
}

// leavesOut reports whether an answer of a version goes without the field while it has no value.
func (f *field) leavesOut(version apiver.Version) bool {
	return f.omitEmpty && !f.always.Has(version)
}

func customOf(t reflect.Type) custom {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return byTime
	case t.Kind() != reflect.Interface && t.Implements(reflect.TypeFor[json.Marshaler]()):
		return byJSON
	case t.Kind() != reflect.Interface && t.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()):
		return byJSON
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return byEncoding
		}
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return byEncoding
		}
	case reflect.Float32, reflect.Float64:
		return byEncoding
	default:
	}
	return notCustom
}
