package producer

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// ownSubject is the user name of this pod's ServiceAccount, as its own token says. It only scopes the idempotency keys of the app
// beside, so that a token which cannot be read costs nothing but a less telling name.
func ownSubject(apiDir, namespace string) string {
	fallback := "system:serviceaccount:" + namespace + ":producer"
	raw, err := os.ReadFile(filepath.Join(apiDir, "token"))
	if err != nil {
		return fallback
	}
	parts := strings.Split(strings.TrimSpace(string(raw)), ".")
	if len(parts) != 3 {
		return fallback
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return fallback
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Subject == "" {
		return fallback
	}
	return claims.Subject
}
