package main

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"net/http"
	"path/filepath"
)

// keep serves the store of effects.
//
//	POST /v1/executions/start    an execution has started         204
//	POST /v1/executions/finish   an execution has its effect      204, after it is on disk
//	GET  /v1/effects?source=S    one JSON object a line
//	GET  /v1/summary?source=S    counts
func keep(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("store", flag.ContinueOnError)
	listen := flags.String("listen", ":8080", "address of the store")
	directory := flags.String("data", "/data", "directory of the ledger")
	if err := flags.Parse(args); err != nil {
		return err
	}
	effects, err := openLedger(filepath.Join(*directory, "effects.ndjson"))
	if err != nil {
		return err
	}
	slog.Info("ledger is open", "effects", effects.summary("").Effects)
	return serve(ctx, *listen, routes(effects))
}

func routes(effects *ledger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/executions/{phase}", func(answer http.ResponseWriter, request *http.Request) {
		var run Execution
		if err := json.NewDecoder(http.MaxBytesReader(answer, request.Body, 64<<10)).Decode(&run); err != nil {
			http.Error(answer, "not an execution: "+err.Error(), http.StatusBadRequest)
			return
		}
		finished := request.PathValue("phase") == "finish"
		if run.ID == "" || run.MessageID == "" || finished != (run.Analysis != nil) {
			http.Error(answer, "an execution has an id and a messageID, and an analysis when it has finished", http.StatusBadRequest)
			return
		}
		if err := effects.record(run); err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		answer.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/effects", func(answer http.ResponseWriter, request *http.Request) {
		answer.Header().Set("Content-Type", "application/x-ndjson")
		lines := json.NewEncoder(answer)
		for _, effect := range effects.list(request.URL.Query().Get("source")) {
			if err := lines.Encode(effect); err != nil {
				return // the reader has gone away
			}
		}
	})
	mux.HandleFunc("GET /v1/summary", func(answer http.ResponseWriter, request *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(answer).Encode(effects.summary(request.URL.Query().Get("source"))); err != nil {
			slog.Warn("answering a summary", "error", err)
		}
	})
	return mux
}
