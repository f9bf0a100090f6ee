package types

// AuthConfig is what a client sends along for a registry (document 1, 2.6), in a header or as the body of auth. Password
// and tokens show themselves in no log.
type AuthConfig struct {
	Username      string `json:"username,omitzero"`
	Password      Secret `json:"password,omitzero"`
	Auth          Secret `json:"auth,omitzero"` // both of them, as configuration files hold them: base64 of user:password
	Email         string `json:"email,omitzero" api:"-1.22"`
	ServerAddress string `json:"serveraddress,omitzero"`
	IdentityToken Secret `json:"identitytoken,omitzero" api:"1.24-"`
	RegistryToken Secret `json:"registrytoken,omitzero"`
}

// Login is the answer to auth.
type Login struct {
	Status        string
	IdentityToken string `api:"1.24-"`
}
