package logdriver

import (
	"strconv"
)

// Secret is a value that goes to a receiver and nowhere else: printed it is hidden.
type Secret string

// String hides the value.
func (Secret) String() string { return "[hidden]" }

// GoString hides the value.
func (Secret) GoString() string { return "[hidden]" }

// MarshalText hides the value.
func (Secret) MarshalText() ([]byte, error) { return []byte("[hidden]"), nil }

// parseSwitch returns the value of an option that is on or off, or preset if it is not set.
func parseSwitch(options map[string]string, name string, preset bool) (bool, error) {
	value, ok := options[name]
	if !ok {
		return preset, nil
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, invalidOpt(name, value, "true or false")
	}
	return on, nil
}

// parseNumber returns the value of an option that is a number from low to high, or preset if it is not set.
func parseNumber(options map[string]string, name string, preset, low, high int) (int, error) {
	value, ok := options[name]
	if !ok {
		return preset, nil
	}
	number, err := strconv.Atoi(value)
	if err != nil || number < low || number > high {
		return 0, invalidOpt(name, value, "a number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return number, nil
}
