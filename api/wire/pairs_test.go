package wire_test

import (
	"reflect"
	"testing"

	"moss/api/compat"
	"moss/api/types"
)

// TestFieldPairs: a field that clients know by another name than the documents is there by both, with the same type, in the
// same versions.
func TestFieldPairs(t *testing.T) {
	holds := map[string]reflect.Type{
		"EngineRootDir": reflect.TypeFor[types.Info](), "EngineVersion": reflect.TypeFor[types.ImageInspect](),
	}
	for _, pair := range compat.FieldPairs() {
		of := holds[pair[0]]
		if of == nil {
			t.Errorf("no type is known to hold %s: add it here", pair[0])
			continue
		}
		first, hasFirst := of.FieldByName(pair[0])
		second, hasSecond := of.FieldByName(pair[1])
		if !hasFirst || !hasSecond || first.Type != second.Type || first.Tag != second.Tag {
			t.Errorf("%s of %s and %s differ: %v, %v", of, pair[0], pair[1], first, second)
		}
	}
}
