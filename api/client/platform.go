package client

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// Platform is what an image is for, as OCI has it.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

// encodePlatforms adds a parameter for each platform.
func encodePlatforms(query url.Values, key string, platforms []Platform) error {
	for _, platform := range platforms {
		raw, err := json.Marshal(platform)
		if err != nil {
			return fmt.Errorf("encode platform: %w", err)
		}
		query.Add(key, string(raw))
	}
	return nil
}
