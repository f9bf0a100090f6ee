package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/types"
	"moss/cmd/moss/credential"
)

// splitTag cuts a name at the colon of its tag, not at that of a registry's port.
func splitTag(name string) (repo, tag string) {
	colon := strings.LastIndexByte(name, ':')
	if colon < 0 || strings.Contains(name[colon:], "/") {
		return name, ""
	}
	return name[:colon], name[colon+1:]
}

// splitName cuts a name into repository and tag or digest; a digest is more than a tag beside it.
func splitName(name string) (repo, version string) {
	repo, digest, found := strings.Cut(name, "@")
	if found {
		repo, _ = splitTag(repo)
		return repo, digest
	}
	return splitTag(name)
}

// fullName is a name with all that may be left out of it: docker.io/library/busybox:latest.
func fullName(repo, version string) string {
	repo = credential.Repository(repo)
	switch {
	case version == "":
		return repo
	case strings.Contains(version, ":"):
		return repo + "@" + version
	default:
		return repo + ":" + version
	}
}

// openCredentials returns the user's store.
func (a *app) openCredentials() *credential.Store { return credential.Open(a.envValue, os.Environ()) }

// authOfImage returns what an image's registry is shown. Credentials that cannot be read are told of and left out: most images
// are there for everybody.
func (a *app) authOfImage(ctx context.Context, image string) types.AuthConfig {
	found, err := a.openCredentials().Get(ctx, image)
	if err != nil && found.Empty() {
		a.printWarnings([]string{"going on without credentials for " + credential.Registry(image) + ": " + err.Error()})
	}
	return authOf(credential.Registry(image), found)
}

func authOf(registry string, found credential.Credential) types.AuthConfig {
	if found.Empty() {
		return types.AuthConfig{}
	}
	return types.AuthConfig{
		Username: found.Username, Password: types.Secret(found.Password), IdentityToken: types.Secret(found.IdentityToken),
		RegistryToken: types.Secret(found.RegistryToken), ServerAddress: credential.Address(registry),
	}
}

func (a *app) tagCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "tag IMAGE NAME[:TAG]",
		Short:             "Add a name to an image",
		Example:           "  moss tag busybox localhost:5000/tools/busybox:v1",
		Args:              requireArgs(2, 2),
		ValidArgsFunction: a.completeImages(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.Contains(args[1], "@") {
				return usageError(cmd, errors.New("the new name cannot have a digest"))
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			repo, tag := splitTag(args[1])
			return engine.ImageTag(cmd.Context(), args[0], repo, tag)
		},
	}
}
