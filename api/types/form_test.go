package types_test

import (
	"encoding/json"
	"errors"
	"reflect"
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
	for raw, want := range map[string]string{`{"Networks":["a",5]}`: "number", `{"TaskTemplate":{"Resources":{"Limits":{"CPU":"1"}}}}`: "string"} {
		var s types.ServiceSpec
		err := json.Unmarshal([]byte(raw), &s)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || wrong.Value != want {
			t.Errorf("decoding %s: %v, want a type error with %s", raw, err, want)
		}
	}
	var c types.Config
	if err := json.Unmarshal([]byte(`{"Cmd":"a b","StopSignal":9}`), &c); err != nil || c.StopSignal != "9" || len(c.Cmd) != 1 {
		t.Errorf("decoded %+v, %v", c, err)
	}
}

// TestServiceForms: the forms in which clients write networks and amounts.
func TestServiceForms(t *testing.T) {
	var s types.ServiceSpec
	const body = `{"Networks":["a",{"Target":"b","Aliases":["c"]}],"TaskTemplate":{"Resources":{"Limits":{"CPU":1,"Memory":2},` +
		`"Reservations":{"CPU":1,"NanoCPUs":3,"MemoryBytes":4,"Memory":2}}}}`
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	want := types.ServiceSpec{
		Networks: []types.ServiceNetwork{{Target: "a"}, {Target: "b", Aliases: []string{"c"}}},
		TaskTemplate: types.TaskSpec{Resources: &types.ServiceRequirements{
			Limits:       &types.ServiceResource{NanoCPUs: 1, MemoryBytes: 2},
			Reservations: &types.ServiceResource{NanoCPUs: 3, MemoryBytes: 4},
		}},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("decoded %+v, want %+v", s, want)
	}
}
