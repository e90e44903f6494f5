package harness

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Tokens are the files of the tokens that kubelet keeps for a pod, in memory that the pod's node alone has mounted.
func (c *Cluster) Tokens(ctx context.Context, node, podUID string) ([]string, error) {
	root, err := c.Root(ctx, node)
	if err != nil {
		return nil, err
	}
	pattern := filepath.Join(root, "var", "lib", "kubelet", "pods", podUID, "volumes", "kubernetes.io~projected", "*", "token")
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no token at %s", pattern)
	}
	return files, err
}

// SigningKey names the key that signed a token.
func SigningKey(token string) (string, error) {
	first, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return "", fmt.Errorf("decoding the header of a token: %w", err)
	}
	var header struct {
		KeyID string `json:"kid"`
	}
	if err := json.Unmarshal(raw, &header); err != nil {
		return "", fmt.Errorf("decoding the header of a token: %w", err)
	}
	if header.KeyID == "" {
		return "", errors.New("a token names no key")
	}
	return header.KeyID, nil
}
