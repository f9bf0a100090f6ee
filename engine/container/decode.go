package container

import (
	"bytes"
	"reflect"
)

// The types that decoding errors name. They are never assigned to.
var (
	stringsType = reflect.TypeFor[Strings]()
	signalType  = reflect.TypeFor[Signal]()
	lxcConfType = reflect.TypeFor[LxcConf]()
)

// kindOf names the kind of a JSON value as encoding/json does in its own errors.
func kindOf(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	default:
		return "number"
	}
}
