package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var modes = map[string]func(context.Context, []string) error{
	"work":    work,
	"store":   keep,
	"produce": produce,
	"receive": receive,
	"submit":  submit,
	"check":   check,
	"wait":    wait,
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if len(os.Args) < 2 || modes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: app work|store|produce|receive|submit|check|wait [flags]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := modes[os.Args[1]](ctx, os.Args[2:])
	stop()
	if err != nil {
		slog.Error("stopped", "mode", os.Args[1], "error", err)
		os.Exit(1)
	}
}

// serve runs an HTTP server until ctx ends, then lets running requests finish.
func serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		// Longer than any sample job; the pod's grace period is the real limit.
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
		defer cancel()
		stopped <- server.Shutdown(finish)
	}()
	slog.Info("listening", "address", address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", address, err)
	}
	return <-stopped
}

// wait does nothing until it is stopped: a pod to run other modes in.
func wait(ctx context.Context, _ []string) error {
	<-ctx.Done()
	return nil
}
