package wire_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/api/wire"
	"moss/engine/fault"
)

func FuzzBuildHeaders(f *testing.F) {
	for _, s := range []string{
		`{"a":{"username":"u","password":"p"}}`, `{"auths":{"a":{"auth":"dTpw"}}}`, `{"auths":null}`, `{"a":"cGFzc3dvcmQ="}`, `{"a":1}`, "null", "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		header := base64.StdEncoding.EncodeToString(raw)
		for _, auth := range wire.DecodeRegistryConfig(header, apiver.Max) {
			if secret := string(auth.Password); len(secret) > len("[hidden]") && strings.Contains(fmt.Sprintf("%+v", auth), secret) &&
				!strings.Contains(auth.Username+auth.ServerAddress, secret) {
				t.Errorf("%q: a password shows itself", raw)
			}
		}
		secrets, err := wire.DecodeBuildSecrets(header)
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v is no invalid fault", raw, err)
		}
		if _, unnamed := secrets[""]; unnamed {
			t.Errorf("%q: a secret without a name", raw)
		}
	})
}

func FuzzBuildParameters(f *testing.F) {
	for _, s := range []string{`{"A":"1","B":null}`, `["a"]`, `[{"Name":"nofile","Soft":5,"Hard":6}]`, "null", "{", "1", " "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, args := wire.DecodeBuildArgs(text)
		_, labels := wire.DecodeLabels(text)
		_, names := wire.DecodeCacheFrom(text)
		_, limits := wire.DecodeUlimits(text)
		for _, err := range []error{args, labels, names, limits} {
			if err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v is no invalid fault", text, err)
			}
		}
	})
}
