package awslogs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// service is the name of the service in signatures.
const service = "logs"

// signRequest signs a POST to / with the body (docs.aws.amazon.com: Create a signed AWS API request, AWS4-HMAC-SHA256). It sets
// the headers of the date, the session and the signature; all headers that the request has by then are part of it.
func signRequest(request *http.Request, body []byte, region string, key credentials, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	request.Header.Set("X-Amz-Date", stamp)
	if key.session != "" {
		request.Header.Set("X-Amz-Security-Token", string(key.session))
	}
	fields := map[string]string{"host": request.URL.Host}
	for name, values := range request.Header {
		fields[strings.ToLower(name)] = strings.Join(values, ",")
	}
	names := slices.Sorted(maps.Keys(fields))
	var canonical strings.Builder
	canonical.WriteString("POST\n/\n\n")
	for _, name := range names {
		canonical.WriteString(name + ":" + fields[name] + "\n")
	}
	signed := strings.Join(names, ";")
	canonical.WriteString("\n" + signed + "\n" + hashText(body))

	scope := stamp[:8] + "/" + region + "/" + service + "/aws4_request"
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hashText([]byte(canonical.String()))
	mac := []byte("AWS4" + string(key.secret))
	for _, part := range []string{stamp[:8], region, service, "aws4_request", text} {
		hash := hmac.New(sha256.New, mac)
		hash.Write([]byte(part))
		mac = hash.Sum(nil)
	}
	request.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential="+key.id+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(mac))
}

// hashText returns the SHA-256 of a text in hexadecimal.
func hashText(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
