package arg

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"moss/api/types"
)

// IsDeviceName reports whether a --device value is a name of CDI, vendor/class=name, and no path. The engine checks its parts.
func IsDeviceName(text string) bool {
	vendor, rest, _ := strings.Cut(text, "/")
	class, name, _ := strings.Cut(rest, "=")
	return vendor != "" && class != "" && name != ""
}

// DeviceRule checks one --device-cgroup-rule value: type, major:minor and permissions, as the kernel has them.
func DeviceRule(text string) error {
	if ok, err := regexp.MatchString(`^[abc] ([0-9]+|\*):([0-9]+|\*) [rwm]{1,3}$`, text); err != nil || !ok {
		return fmt.Errorf("device-cgroup-rule %q: want a type, numbers and permissions such as 'c 1:3 rwm'", text)
	}
	return nil
}

// gpuCapability is what a device that --gpus asks for must be able to do, beside what is asked of it.
const gpuCapability = "gpu"

// GPUs parses one --gpus value: fields as in a line of CSV. One without a key is the number of GPUs, or all.
func GPUs(text string) (types.DeviceRequest, error) {
	request := types.DeviceRequest{Capabilities: [][]string{{gpuCapability}}, Options: map[string]string{}}
	fields, err := readFields(text)
	seen := make([]string, 0, len(fields))
	for _, field := range fields {
		key, value, given := strings.Cut(field, "=")
		if !given {
			key, value = "count", field
		}
		if err == nil && slices.Contains(seen, key) {
			err = fmt.Errorf("%s stands there twice", key)
		}
		if err == nil {
			err = askGPUs(&request, key, value)
		}
		seen = append(seen, key)
	}
	if err != nil {
		return types.DeviceRequest{}, fmt.Errorf("gpus %q: %w", text, err)
	}
	if request.DeviceIDs == nil && !slices.Contains(seen, "count") {
		request.Count = 1
	}
	return request, nil
}

// askGPUs takes one field. What is a list is one field in quotes.
func askGPUs(request *types.DeviceRequest, key, value string) (err error) {
	switch key {
	case "count":
		if value == "all" {
			request.Count = -1
		} else if request.Count, err = strconv.Atoi(value); err != nil {
			return fmt.Errorf("count %q: want a number or all", value)
		}
	case "device":
		request.DeviceIDs = strings.Split(value, ",")
	case "driver":
		request.Driver = value
	case "capabilities":
		request.Capabilities = [][]string{append(strings.Split(value, ","), gpuCapability)}
	case "options":
		pairs, err := readFields(value)
		if err != nil {
			return fmt.Errorf("options: %w", err)
		}
		for _, pair := range pairs {
			if err := addPair(&request.Options, pair); err != nil {
				return fmt.Errorf("options: %w", err)
			}
		}
	default:
		return fmt.Errorf("unknown key %q; want count, device, driver, capabilities or options", key)
	}
	return nil
}
