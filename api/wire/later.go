package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"moss/api/apiver"
	"moss/api/types"
	"moss/engine/fault"
)

// The types below are the table of the fields that API versions have and moss does not serve. Clients send many of
// them at every version, most without a value. One with a value is refused, or warned of where its tag lost says what the
// container goes without; the tag fine names a value that changes nothing. The tag read has the versions whose bodies hold the
// field themselves: they lost it later.

type laterCreate struct {
	laterHost

	HostConfig laterHost
}

type laterHost struct {
	CPURealtimePeriod  any `json:"CpuRealtimePeriod" api:"1.25-"`
	CPURealtimeRuntime any `json:"CpuRealtimeRuntime" api:"1.25-"`
	DiskQuota          any `read:"-1.39" lost:"it is for Windows only"`
	KernelMemory       any `read:"-1.41" lost:"kernels no longer have that limit"`
	KernelMemoryTCP    any `api:"1.40-" lost:"kernels no longer have that limit"`
}

type laterVolume struct {
	ClusterVolumeSpec any `api:"1.42-"`
}

type laterService struct {
	Mode struct {
		ReplicatedJob any `api:"1.41-"`
		GlobalJob     any `api:"1.41-"`
	}
	UpdateConfig struct {
		Monitor         any `api:"1.25-" fine:"5000000000"` // nanoseconds
		MaxFailureRatio any `api:"1.25-"`
		Order           any `api:"1.29-" fine:"stop-first"`
	}
	TaskTemplate struct {
		Runtime               any `api:"1.30-" fine:"container"`
		PluginSpec            any `api:"1.30-"`
		NetworkAttachmentSpec any `api:"1.40-"`
		ContainerSpec         laterTask
		Placement             struct {
			Preferences any `api:"1.27-"`
			MaxReplicas any `api:"1.40-"`
		}
		Resources struct {
			Limits struct {
				Pids any `api:"1.41-"`
			}
			Reservations struct {
				GenericResources any `api:"1.32-"`
			}
			SwapBytes        any `api:"1.52-"`
			MemorySwappiness any `api:"1.52-"`
		}
	}
}

type laterTask struct {
	Privileges     any `api:"1.30-"`
	Init           any `api:"1.37-"`
	Secrets        any `api:"1.25-"`
	Configs        any `api:"1.30-"`
	Isolation      any `api:"1.35-" fine:"default"`
	Sysctls        any `api:"1.40-"`
	CapabilityAdd  any `api:"1.41-"`
	CapabilityDrop any `api:"1.41-"`
	Ulimits        any `api:"1.41-"`
	OomScoreAdj    any `api:"1.46-"`
}

type laterSwarm struct {
	CAConfig struct {
		SigningCACert any `api:"1.30-"`
		SigningCAKey  any `api:"1.30-"`
		ForceRotate   any `api:"1.30-"`
	}
}

type laterSwarmInit struct {
	DataPathPort    any `api:"1.40-"`
	DefaultAddrPool any `api:"1.39-"`
	Spec            laterSwarm
}

// laterOf returns the table of a body of some type; nil if there is none.
func laterOf(body reflect.Type) any {
	for body.Kind() == reflect.Pointer {
		body = body.Elem()
	}
	switch body {
	case reflect.TypeFor[types.ContainerCreate]():
		return &laterCreate{}
	case reflect.TypeFor[types.HostConfig](), reflect.TypeFor[types.ContainerUpdate]():
		return &laterHost{}
	case reflect.TypeFor[types.VolumeCreate]():
		return &laterVolume{}
	case reflect.TypeFor[types.ServiceSpec]():
		return &laterService{}
	case reflect.TypeFor[types.SwarmSpec]():
		return &laterSwarm{}
	case reflect.TypeFor[types.SwarmInit]():
		return &laterSwarmInit{}
	default:
		return nil
	}
}

// DecodeWarn is Decode, and returns warnings of the fields with a value that API versions have and moss does not serve.
// fault.Invalid for one that must not be left out.
func DecodeWarn(raw []byte, into any, version apiver.Version) (warnings []string, err error) {
	if err := Decode(raw, into, version); err != nil {
		return nil, err
	}
	table := laterOf(reflect.TypeOf(into))
	if table == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, table); err != nil {
		return nil, describeError(err, reflect.TypeOf(table))
	}
	err = checkLater(reflect.ValueOf(table).Elem(), "", version, &warnings)
	return warnings, err
}

func checkLater(v reflect.Value, path string, version apiver.Version, warnings *[]string) error {
	if v.Kind() == reflect.Map {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			if err := checkLater(v.MapIndex(key), path+key.String()+".", version, warnings); err != nil {
				return err
			}
		}
		return nil
	}
	for field, value := range v.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		if value.Kind() != reflect.Interface {
			below := path + name + "."
			if field.Anonymous {
				below = path
			}
			if err := checkLater(value, below, version, warnings); err != nil {
				return err
			}
			continue
		}
		since, err := apiver.ParseRange(field.Tag.Get("api"))
		if err != nil {
			return err
		}
		read, reads := field.Tag.Lookup("read")
		versions, err := apiver.ParseRange(read)
		if err != nil {
			return err
		}
		asked := value.Interface()
		if reads && versions.Has(version) || saysNothing(asked) || isFine(asked, field.Tag.Get("fine")) {
			continue
		}
		why := field.Tag.Get("lost")
		if why == "" {
			return fault.Invalid("%s is of API version %s and not supported by this engine", path+name, since.Since)
		}
		*warnings = append(*warnings, path+name+" has no effect: "+why+".")
	}
	return nil
}

// isFine reports whether a value is the text or the number of a tag.
func isFine(value any, tag string) bool {
	if number, ok := value.(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64) == tag
	}
	return value == any(tag)
}

// saysNothing reports whether a value is what clients send for none.
func saysNothing(value any) bool {
	switch value := value.(type) {
	case []any:
		return !slices.ContainsFunc(value, func(one any) bool { return !saysNothing(one) })
	case map[string]any:
		return len(value) == 0
	default:
		return value == nil || value == false || value == 0.0 || value == ""
	}
}
