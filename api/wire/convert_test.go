package wire_test

import (
	"reflect"
	"testing"

	"moss/api/types"
	"moss/engine/container"
	"moss/engine/image"
)

// TestShapes: the records of the API that become the engine's by convertRecord, and the reverse, have the same fields.
func TestShapes(t *testing.T) {
	for own, of := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[types.Config]():      reflect.TypeFor[container.Config](),
		reflect.TypeFor[types.HostConfig]():  reflect.TypeFor[container.HostConfig](),
		reflect.TypeFor[types.Healthcheck](): reflect.TypeFor[image.Healthcheck](),
	} {
		compareShapes(t, own.Name(), own, of)
	}
}

func compareShapes(t *testing.T, path string, own, of reflect.Type) {
	t.Helper()
	switch {
	case own == of:
	case own.Kind() != of.Kind():
		t.Errorf("%s: %s here, %s in the engine", path, own.Kind(), of.Kind())
	case own.Kind() == reflect.Struct:
		if own.NumField() != of.NumField() {
			t.Errorf("%s: %d fields here, %d in the engine", path, own.NumField(), of.NumField())
			return
		}
		for i := range own.NumField() {
			if own.Field(i).Name != of.Field(i).Name {
				t.Errorf("%s: %s here, %s in the engine", path, own.Field(i).Name, of.Field(i).Name)
			}
			compareShapes(t, path+"."+own.Field(i).Name, own.Field(i).Type, of.Field(i).Type)
		}
	case own.Kind() == reflect.Slice || own.Kind() == reflect.Pointer:
		compareShapes(t, path, own.Elem(), of.Elem())
	case own.Kind() == reflect.Map && own.Key() == of.Key():
		compareShapes(t, path, own.Elem(), of.Elem())
	case own.Kind() != reflect.String:
		t.Errorf("%s: %s here, %s in the engine: no conversion", path, own, of)
	}
}
