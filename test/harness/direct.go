package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// direct reads from an address that this machine reaches without the API server, as it does with pods of a local cluster.
func direct(ctx context.Context, address, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", address, err)
	}
	request.Close = true // the next answer may be of another process
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return "", fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %.200s", address, answer.Status, text)
	}
	return string(text), nil
}
