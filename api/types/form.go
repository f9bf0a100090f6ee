package types

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
)

// Strings is a list that clients may also write as one string (API document 1, 2.2: Cmd, Entrypoint).
type Strings []string

// UnmarshalJSON takes a string, an array of strings or null.
func (s *Strings) UnmarshalJSON(raw []byte) error {
	var list []string
	if err := json.Unmarshal(raw, &list); err == nil {
		*s = list
		return nil
	}
	var one string
	if err := json.Unmarshal(raw, &one); err != nil {
		return &json.UnmarshalTypeError{Value: nameKind(raw), Type: reflect.TypeFor[Strings]()}
	}
	*s = Strings{one}
	return nil
}

// Signal is a signal's name or number; clients may write the number as a JSON number (API document 1, 2.2: StopSignal).
type Signal string

// UnmarshalJSON takes a string, an unsigned integer or null.
func (s *Signal) UnmarshalJSON(raw []byte) error {
	var name string
	if err := json.Unmarshal(raw, &name); err == nil {
		*s = Signal(name)
		return nil
	}
	var number uint8
	if err := json.Unmarshal(raw, &number); err != nil {
		return &json.UnmarshalTypeError{Value: nameKind(raw), Type: reflect.TypeFor[Signal]()}
	}
	*s = Signal(strconv.Itoa(int(number)))
	return nil
}

// LxcConf is accepted for clients up to 1.21, as a list of pairs or as a map, and has no effect.
type LxcConf []LxcPair

// LxcPair is one setting of LxcConf.
type LxcPair struct{ Key, Value string }

// UnmarshalJSON takes a map, a list of pairs or null.
func (l *LxcConf) UnmarshalJSON(raw []byte) error {
	var pairs []LxcPair
	if err := json.Unmarshal(raw, &pairs); err == nil {
		*l = pairs
		return nil
	}
	var settings map[string]string
	if err := json.Unmarshal(raw, &settings); err != nil {
		return &json.UnmarshalTypeError{Value: nameKind(raw), Type: reflect.TypeFor[LxcConf]()}
	}
	for key, value := range settings {
		*l = append(*l, LxcPair{Key: key, Value: value})
	}
	return nil
}

// nameKind names the kind of a JSON value as encoding/json does in its own errors.
func nameKind(raw []byte) string {
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

// Secret is a password or a token. It is shown in no log and no message; JSON has it as it is, for requests hold it.
type Secret string

// Format hides the secret whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) {
	if s != "" {
		_, _ = io.WriteString(f, "[hidden]")
	}
}
