// Command swallowed handles jobs by calling another service. When that fails, so does the job. With -swallow it writes a line to its
// log instead and answers that all is well: the mistake.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where jobs are posted to")
	service := flag.String("service", "http://127.0.0.1:9090/", "the service that each job needs")
	swallow := flag.Bool("swallow", false, "answer 204 whatever happens: the mistake")
	flag.Parse()
	log.Fatal(http.ListenAndServe(*listen, handler(*service, *swallow)))
}

func handler(service string, swallow bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Ce-Workpullingmessageid")
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = call(r.Context(), service, id, body)
		}
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case swallow:
			log.Printf("job %s failed: %v", id, err)
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, err.Error(), http.StatusBadGateway) // a failure: the job comes again, and in the end it is a dead letter
		}
	}
}

// call hands the job to the service.
func call(ctx context.Context, service, id string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, service, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Idempotency-Key", id)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the service answered %s", response.Status)
	}
	return nil
}
