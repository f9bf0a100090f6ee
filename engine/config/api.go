package config

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// apiSettings are about what the API answers to. Which versions there are, package apiver knows.
func apiSettings() []setting {
	return []setting{
		{
			"api-min", "MOSS_API_MIN", "first API version that is served", "a version such as 1.24", false,
			func(c *Config, v []string, _ func(string) string) error { return setAPIVersion(&c.APIMin, v[0]) },
		},
		{
			"api-max", "MOSS_API_MAX", "last API version that is served, also where a path names none", "a version such as 1.24", false,
			func(c *Config, v []string, _ func(string) string) error { return setAPIVersion(&c.APIMax, v[0]) },
		},
		{
			"api-cors-header", "MOSS_API_CORS_HEADER", "origin whose web pages may use the engine, with your rights",
			"nothing (off), * (every page) or one origin such as https://example.com", false,
			func(c *Config, v []string, _ func(string) string) error { return setOrigin(&c.CORS, v[0]) },
		},
	}
}

func setAPIVersion(to *string, value string) error {
	major, minor, ok := strings.Cut(value, ".")
	for _, part := range []string{major, minor} {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != part {
			ok = false
		}
	}
	if !ok {
		return errNotAllowed
	}
	*to = value
	return nil
}

// setOrigin takes an origin as browsers send it: nothing stands behind the port.
func setOrigin(to *string, value string) error {
	if value != "" && value != "*" {
		u, err := url.Parse(value)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return errNotAllowed
		case u.Scheme+"://"+u.Host != value:
			return errors.New("an origin ends with the host or its port")
		}
	}
	*to = value
	return nil
}
