package client_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"moss/api/client"
	"moss/api/client/clienttest"
	"moss/api/types"
)

func TestNetworkRequests(t *testing.T) {
	engine := clienttest.New(t)
	no := func(err error) {
		t.Helper()
		if client.StatusOf(err) != http.StatusNotFound {
			t.Errorf("got %v, want the fake's 404", err)
		}
	}
	c, ctx := newClient(t, engine), t.Context()
	filters := map[string][]string{"label": {"a"}}
	no(second(c.NetworkList(ctx, nil)))
	no(second(c.NetworkList(ctx, filters)))
	no(second(c.NetworkInspect(ctx, "a b")))
	no(second(c.NetworkCreate(ctx, types.NetworkCreate{Name: "a"})))
	no(c.NetworkConnect(ctx, "a", "web", nil))
	no(c.NetworkDisconnect(ctx, "a", "web", true))
	no(c.NetworkRemove(ctx, "a"))
	no(second(c.NetworksPrune(ctx, filters)))
	const label = "?filters=%7B%22label%22%3A%5B%22a%22%5D%7D"
	want := []string{
		"GET /networks", "GET /networks" + label, "GET /networks/a b", "POST /networks/create", "POST /networks/a/connect",
		"POST /networks/a/disconnect", "DELETE /networks/a", "POST /networks/prune" + label,
	}
	if got := engine.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for what, err := range map[string]error{
		"inspect": second(c.NetworkInspect(ctx, "")), "connect": c.NetworkConnect(ctx, "", "web", nil),
		"disconnect": c.NetworkDisconnect(ctx, "", "web", false), "remove": c.NetworkRemove(ctx, ""),
	} {
		if err == nil || !strings.Contains(err.Error(), "empty network name") {
			t.Errorf("%s of no name = %v", what, err)
		}
	}
}
