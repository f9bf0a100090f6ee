package wire_test

import (
	"reflect"
	"testing"

	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/image"
)

// TestShapes: the settings of containers have the same fields in the API as in the engine.
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
	case own.AssignableTo(of):
	case own.Kind() != of.Kind():
		t.Errorf("%s: %s here, %s in the engine", path, own.Kind(), of.Kind())
	case own.Kind() == reflect.Struct:
		extra := 0
		if own == reflect.TypeFor[types.HostConfig]() {
			extra = 2 // the last two have no value but zero
		}
		if own.NumField()-extra != of.NumField() {
			t.Errorf("%s: %d fields here, %d in the engine", path, own.NumField(), of.NumField())
			return
		}
		for i := range of.NumField() {
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

// TestConversions converts settings with one field at a time, with all, and with empty lists and maps, so that a field that is
// dropped, mixed up with another, or null instead of empty shows. An inspect has empty ones in three fields where there are none.
func TestConversions(t *testing.T) {
	eachField(func(config *types.Config) {
		got := wire.ToConfig(config)
		compareValues(t, "ToConfig", reflect.ValueOf(got), reflect.ValueOf(*config))
	})
	eachField(func(host *types.HostConfig) {
		got := wire.ToHost(host)
		compareValues(t, "ToHost", reflect.ValueOf(got), reflect.ValueOf(*host))
	})
	eachField(func(config *container.Config) {
		if config.Labels == nil {
			config.Labels = map[string]string{}
		}
		got := wire.NewContainerInspect(&container.Record{Config: *config}).Config.Config
		compareValues(t, "Config", reflect.ValueOf(got), reflect.ValueOf(*config))
	})
	eachField(func(host *container.HostConfig) {
		if host.NetworkMode == "" {
			host.NetworkMode = "default"
		}
		if host.LogConfig.Config == nil {
			host.LogConfig.Config = map[string]string{}
		}
		if host.LxcConf == nil {
			host.LxcConf = []container.LxcPair{}
		}
		got := wire.NewContainerInspect(&container.Record{Host: *host}).HostConfig
		compareValues(t, "HostConfig", reflect.ValueOf(got), reflect.ValueOf(*host))
	})
}

// eachField has try look at records with something in one field alone, in none and in all, and with what is not null but empty
// in one field alone.
func eachField[T any](try func(*T)) {
	all := filled[T]()
	try(&all)
	try(new(T))
	from := reflect.ValueOf(filled[T]())
	for i := range from.NumField() {
		one, empty := new(T), new(T)
		reflect.ValueOf(one).Elem().Field(i).Set(from.Field(i))
		try(one)
		switch field := reflect.ValueOf(empty).Elem().Field(i); field.Kind() {
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		default:
			continue
		}
		try(empty)
	}
}

// compareValues holds two records of the same shape to have the same in each field that both have.
func compareValues(t *testing.T, path string, got, want reflect.Value) {
	t.Helper()
	switch got.Kind() {
	case reflect.Struct:
		for i := range min(got.NumField(), want.NumField()) {
			compareValues(t, path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i))
		}
		return
	case reflect.Slice, reflect.Map, reflect.Pointer:
		if got.IsNil() || want.IsNil() {
			if got.IsNil() != want.IsNil() {
				t.Errorf("%s: got %+v, want %+v", path, got, want)
			}
			return
		}
	default:
	}
	switch got.Kind() {
	case reflect.Pointer:
		compareValues(t, path, got.Elem(), want.Elem())
	case reflect.Slice:
		if got.Len() != want.Len() {
			t.Errorf("%s: got %d entries, want %d", path, got.Len(), want.Len())
			return
		}
		for i := range got.Len() {
			compareValues(t, path, got.Index(i), want.Index(i))
		}
	case reflect.Map:
		if got.Len() != want.Len() {
			t.Errorf("%s: got %d entries, want %d", path, got.Len(), want.Len())
			return
		}
		for key, value := range want.Seq2() {
			if got.MapIndex(key).IsValid() {
				compareValues(t, path, got.MapIndex(key), value)
			} else {
				t.Errorf("%s: got no entry %v", path, key)
			}
		}
	default:
		if !got.Equal(want.Convert(got.Type())) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}
