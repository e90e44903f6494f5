package transport

import (
	"context"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/workpulling/workpulling/runtime/protocol"
)

const authorization = "authorization"

// maxTokenBytes bounds what is sent to a token review; projected tokens have about one kilobyte.
const maxTokenBytes = 16 << 10

// TokenFile presents the token in a file, read anew for every stream, because the kubelet rotates it (B-255).
type TokenFile string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (f TokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	raw, err := os.ReadFile(string(f))
	if err != nil {
		return nil, fmt.Errorf("reading the token: %w", err)
	}
	return map[string]string{authorization: "Bearer " + strings.TrimSpace(string(raw))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (TokenFile) RequireTransportSecurity() bool { return true }

// TokenFunc presents the token that it returns, asked anew for every stream.
type TokenFunc func(ctx context.Context) (string, error)

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (f TokenFunc) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := f(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting the token: %w", err)
	}
	return map[string]string{authorization: "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (TokenFunc) RequireTransportSecurity() bool { return true }

// BearerOf returns the token that the caller of a gRPC method presented.
func BearerOf(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, authorization)
	if len(values) != 1 {
		return "", missingToken()
	}
	return ParseBearer(values[0])
}

// ParseBearer returns the token in the value of an Authorization header.
func ParseBearer(value string) (string, error) {
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", missingToken()
	case len(token) > maxTokenBytes:
		return "", &Refusal{Code: protocol.RefusedIdentity, Label: LabelTokenInvalid, Reason: "the token is longer than any of a ServiceAccount"}
	}
	return token, nil
}

func missingToken() *Refusal {
	return &Refusal{Code: protocol.RefusedIdentity, Label: LabelTokenMissing, Reason: "present a ServiceAccount token as \"Authorization: Bearer\""}
}
