package client_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"moss/api/client"
	"moss/api/client/clienttest"
	"moss/api/types"
)

func TestImageRequests(t *testing.T) {
	engine := clienttest.New(t)
	no := func(err error) {
		t.Helper()
		if client.StatusOf(err) != http.StatusNotFound {
			t.Errorf("got %v, want the fake's 404", err)
		}
	}
	c, ctx := newClient(t, engine), t.Context()
	filters := map[string][]string{"label": {"a"}}
	no(c.ImagePull(ctx, client.PullOptions{Name: "a", Tag: "b", Platform: "linux/arm64"}, nil))
	arm := client.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}
	no(c.ImagePush(ctx, client.PushOptions{Name: "127.0.0.1:5000/a/b", Tag: "t", Platforms: []client.Platform{arm}}, nil))
	no(c.ImageTag(ctx, "a", "127.0.0.1:5000/b", "t"))
	no(second(c.ImageHistory(ctx, "a/b:t", arm)))
	no(second(c.ImageSearch(ctx, client.SearchOptions{Term: "a", Limit: 3, Filters: filters})))
	no(second(c.ImageInspect(ctx, "a", arm)))
	no(second(c.ImageRemove(ctx, "a", false, false, arm, client.Platform{OS: "linux"})))
	no(c.ImageSave(ctx, []string{"a/b:t", "c"}, io.Discard, arm))
	no(c.ImageLoad(ctx, strings.NewReader("x"), 1, true, nil, arm))
	no(c.ImageImport(ctx, client.ImportOptions{Source: "http://example.test/a.tar", Repo: "a", Platform: "linux/arm"}, nil, nil))
	no(second(c.Login(ctx, types.AuthConfig{Username: "u"})))
	no(second(c.DiskUsage(ctx)))
	no(second(c.ImagesPrune(ctx, filters)))
	no(second(c.ContainersPrune(ctx, filters)))
	no(second(c.VolumesPrune(ctx, nil)))
	const label = "?filters=%7B%22label%22%3A%5B%22a%22%5D%7D"
	const platform = "=%7B%22architecture%22%3A%22arm%22%2C%22os%22%3A%22linux%22%2C%22variant%22%3A%22v7%22%7D"
	want := []string{
		"POST /images/create?fromImage=a&platform=linux%2Farm64&tag=b",
		"POST /images/127.0.0.1:5000/a/b/push?platform" + platform + "&tag=t",
		"POST /images/a/tag?force=1&repo=127.0.0.1%3A5000%2Fb&tag=t",
		"GET /images/a/b:t/history?platform" + platform,
		"GET /images/search" + label + "&limit=3&term=a",
		"GET /images/a/json?platform" + platform,
		"DELETE /images/a?platforms" + platform + "&platforms=%7B%22architecture%22%3A%22%22%2C%22os%22%3A%22linux%22%7D",
		"GET /images/get?names=a%2Fb%3At&names=c&platform" + platform,
		"POST /images/load?platform" + platform + "&quiet=1",
		"POST /images/create?fromSrc=http%3A%2F%2Fexample.test%2Fa.tar&platform=linux%2Farm&repo=a",
		"POST /auth",
		"GET /system/df",
		"POST /images/prune" + label,
		"POST /containers/prune" + label,
		"POST /volumes/prune",
	}
	if got := engine.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCredentialsGoAlong(t *testing.T) {
	engine := clienttest.New(t)
	auth := types.AuthConfig{Username: "u", Password: "p~~~?", IdentityToken: "i", ServerAddress: "s"}
	const said = `{"username":"u","password":"p~~~?","serveraddress":"s","identitytoken":"i"}`
	var got string
	header := func(w http.ResponseWriter, r *http.Request) {
		raw, err := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
		if got = string(raw); err != nil {
			t.Error(err)
		}
		if r.Method == http.MethodGet {
			clienttest.JSON(w, http.StatusOK, []string{})
			return
		}
		clienttest.JSON(w, http.StatusOK, map[string]string{"status": "done"})
	}
	engine.Override["POST /images/create"] = header
	engine.Override["POST /images/a/push"] = header
	engine.Override["GET /images/search"] = header
	engine.Override["POST /auth"] = func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if got = string(raw); err != nil {
			t.Error(err)
		}
		clienttest.JSON(w, http.StatusOK, map[string]string{"Status": "Login Succeeded", "IdentityToken": "new"})
	}
	c, ctx := newClient(t, engine), t.Context()
	ignore := func(client.Progress) error { return nil }
	for name, call := range map[string]func() error{
		"pull":   func() error { return c.ImagePull(ctx, client.PullOptions{Name: "a", Auth: auth}, ignore) },
		"push":   func() error { return c.ImagePush(ctx, client.PushOptions{Name: "a", Auth: auth}, ignore) },
		"search": func() error { return second(c.ImageSearch(ctx, client.SearchOptions{Term: "a", Auth: auth})) },
		"login": func() error {
			answer, err := c.Login(ctx, auth)
			if answer.Status != "Login Succeeded" || answer.IdentityToken != "new" {
				t.Errorf("login = %+v", answer)
			}
			return err
		},
	} {
		got = ""
		if err := call(); err != nil || got != said {
			t.Errorf("%s = %v with credentials %q, want %q", name, err, got, said)
		}
	}
	if shown := fmt.Sprintf("%v %+v %#v %s", auth, auth, auth, auth); strings.Contains(shown, "p~~~") || strings.Contains(shown, "\"i\"") {
		t.Errorf("printed: %s", shown)
	}
}

// TestSaveThatBreaksOff has the engine fail in the middle of an archive.
func TestSaveThatBreaksOff(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /images/get"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		panic(http.ErrAbortHandler)
	}
	var out strings.Builder
	err := newClient(t, engine).ImageSave(t.Context(), []string{"a"}, &out)
	if _, lost := errors.AsType[*client.LostError](err); !lost {
		t.Errorf("save = %v after %d bytes, want a LostError", err, out.Len())
	}
}

func TestLoadFailsByItsArchive(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /images/load"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "unexpected EOF", http.StatusInternalServerError)
	}
	broken := errors.New("disk broken")
	err := newClient(t, engine).ImageLoad(t.Context(), io.MultiReader(strings.NewReader("x"), brokenReader{broken}), 0, false,
		func(client.Progress) error { return nil })
	if !errors.Is(err, broken) {
		t.Errorf("load = %v, want %v", err, broken)
	}
}

func TestUsageAnswers(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /system/df"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"LayersSize":9,"LayersUsed":5,"Images":[{"Id":"i","Size":5,"SharedSize":2,"UniqueSize":3,"Containers":1}],`+
			`"Containers":[{"Id":"c","SizeRw":4,"SizeRootFs":6}],"Volumes":[{"Name":"v","UsageData":{"Size":7,"RefCount":2}}]}`)
	}
	engine.Override["POST /images/prune"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"ImagesDeleted":[{"Untagged":"a:b"},{"Deleted":"i"}],"SpaceReclaimed":8}`)
	}
	c := newClient(t, engine)
	u, err := c.DiskUsage(t.Context())
	if err != nil || u.LayersSize != 9 || u.LayersUsed != 5 || len(u.Images) != 1 || len(u.Containers) != 1 || len(u.Volumes) != 1 {
		t.Fatalf("usage = %+v, %v", u, err)
	}
	if i := u.Images[0]; i.ID != "i" || i.Size != 5 || i.SharedSize != 2 || i.UniqueSize != 3 || i.Containers != 1 {
		t.Errorf("image %+v", i)
	}
	if v := u.Volumes[0]; v.Name != "v" || v.UsageData.Size != 7 || v.UsageData.RefCount != 2 || *u.Containers[0].SizeRw != 4 {
		t.Errorf("volume %+v, container %+v", v, u.Containers[0])
	}
	p, err := c.ImagesPrune(t.Context(), nil)
	if err != nil || p.SpaceReclaimed != 8 || len(p.ImagesDeleted) != 2 || p.ImagesDeleted[1].Deleted != "i" {
		t.Errorf("prune = %+v, %v", p, err)
	}
}
