package types_test

import (
	"encoding/json"
	"errors"
	"testing"

	"moss/api/types"
)

func TestFormsNameTheWrongKind(t *testing.T) {
	for raw, want := range map[string]string{
		`{"Cmd":5}`: "number", `{"Cmd":{}}`: "object", `{"Cmd":true}`: "bool", `{"Cmd":[1]}`: "array",
		`{"StopSignal":-1}`: "number", `{"StopSignal":[]}`: "array",
	} {
		var c types.Config
		err := json.Unmarshal([]byte(raw), &c)
		var wrong *json.UnmarshalTypeError
		if !errors.As(err, &wrong) || wrong.Value != want {
			t.Errorf("decoding %s: %v, want a type error with %s", raw, err, want)
		}
	}
	for raw, want := range map[string]string{`{"LxcConf":"a"}`: "string", `{"LxcConf":[1]}`: "array"} {
		var h types.HostConfig
		err := json.Unmarshal([]byte(raw), &h)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || wrong.Value != want {
			t.Errorf("decoding %s: %v, want a type error with %s", raw, err, want)
		}
	}
	var c types.Config
	if err := json.Unmarshal([]byte(`{"Cmd":"a b","StopSignal":9}`), &c); err != nil || c.StopSignal != "9" || len(c.Cmd) != 1 {
		t.Errorf("decoded %+v, %v", c, err)
	}
}
