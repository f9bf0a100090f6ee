package wire

import "reflect"

// convertRecord fills a value from one of another type of the same shape: these records of the API and of the engine have the
// same fields, in the same order, and differ in the names of their types and in tags. Lists and maps whose types do not differ
// are shared. Types that do not match panic; the test of all pairs finds them. Both are passed by their address, since each
// inspect converts two large records: neither is copied as a whole.
func convertRecord[To, From any](to *To, from *From) {
	convertValue(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

func convertValue(to, from reflect.Value) {
	if from.Type() == to.Type() {
		to.Set(from)
		return
	}
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			convertValue(to.Field(i), from.Field(i))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			convertValue(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				convertValue(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
		for key, value := range from.Seq2() {
			held := reflect.New(to.Type().Elem()).Elem()
			convertValue(held, value)
			to.SetMapIndex(key, held)
		}
	default: // text
		to.SetString(from.String())
	}
}
