package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The app of the tests keeps its effects in the directory that RESULTS names: the file "handled" has the message id of each job, a line each,
// written before the answer, and the file "pid-<replica>" the id of its process.

// app serves until it is killed.
func app() error {
	dir := os.Getenv("RESULTS")
	if err := os.WriteFile(filepath.Join(dir, "pid-"+os.Getenv("HOSTNAME")), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		return err
	}
	return http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handle(dir, r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

// handle takes a moment for a job, or, for a job with the payload "wait", until there is a file "go".
func handle(dir string, r *http.Request) error {
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	<-pause.C
	if string(payload) == "wait" {
		if err := os.WriteFile(filepath.Join(dir, "waiting"), nil, 0o600); err != nil {
			return err
		}
		for missing(filepath.Join(dir, "go")) {
			<-pause.C
		}
	}
	file, err := os.OpenFile(filepath.Join(dir, "handled"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, r.Header.Get("Ce-Workpullingmessageid"))
	return errors.Join(err, file.Close())
}

func missing(file string) bool {
	_, err := os.Stat(file)
	return errors.Is(err, fs.ErrNotExist)
}

// handled are the message ids of the jobs that were handled, each once.
func handled(dir string) []string {
	raw, _ := os.ReadFile(filepath.Join(dir, "handled")) // not there yet is none
	ids := strings.Fields(string(raw))
	slices.Sort(ids)
	return slices.Compact(ids)
}
