package container

import (
	"slices"
	"testing"
)

func TestLayProxies(t *testing.T) {
	proxies := []string{"http_proxy=p", "HTTP_PROXY=p", "no_proxy=local"}
	for _, tc := range []struct {
		name                         string
		proxies, image, client, want []string
	}{
		{"none", nil, []string{"A=1"}, []string{"B=2"}, []string{"B=2"}},
		{"before the client's", proxies, []string{"A=1"}, []string{"B=2"}, []string{"http_proxy=p", "HTTP_PROXY=p", "no_proxy=local", "B=2"}},
		{"the client has one, in one form", proxies, nil, []string{"http_proxy=mine"}, []string{"no_proxy=local", "http_proxy=mine"}},
		{"the client takes one away", proxies, nil, []string{"NO_PROXY"}, []string{"http_proxy=p", "HTTP_PROXY=p", "NO_PROXY"}},
		{"the image has one", proxies, []string{"HTTP_PROXY=image"}, nil, []string{"no_proxy=local"}},
	} {
		if got := LayProxies(tc.proxies, tc.image, tc.client); !slices.Equal(got, tc.want) {
			t.Errorf("%s: LayProxies = %q, want %q", tc.name, got, tc.want)
		}
	}
}
