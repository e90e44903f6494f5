package main

import (
	"context"
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

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
)

// The app of the tests keeps its effects in the directory that RESULTS names: the file "handled" has the message id of each job, a line each,
// written before the answer, and the file "pid-<replica>" the id of its process.

// Values of the variable that makes the test's program an app.
const (
	appPosted   = "posted"   // its worker posts jobs to it
	appStreamed = "streamed" // it opens a stream to its worker
	// appProducing is no worker's: it submits.
	appProducing = "producing"
)

// app works until it is killed.
func app() error {
	dir := os.Getenv("RESULTS")
	if err := os.WriteFile(filepath.Join(dir, "pid-"+os.Getenv("HOSTNAME")), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		return err
	}
	if os.Getenv(asApp) == appProducing {
		return produce(dir)
	}
	if os.Getenv(asApp) == appStreamed {
		return stream(dir, os.Getenv("WORKPULLING_SOCKET"))
	}
	return http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(r.Body)
		if err == nil {
			err = handle(dir, r.Header.Get("Ce-Workpullingmessageid"), string(payload))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

// stream takes jobs from the stream of a worker.
func stream(dir, socket string) error {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	work, err := appv1.NewWorkerClient(conn).Work(context.Background())
	if err != nil {
		return err
	}
	answer := &appv1.AppFrame{Hello: &appv1.Hello{Version: 1}}
	for {
		if err := work.Send(answer); err != nil {
			return err
		}
		frame, err := work.Recv()
		if err != nil {
			return err
		}
		answer = &appv1.AppFrame{}
		for _, d := range frame.GetDeliveries() {
			if err := handle(dir, d.GetMessageId(), string(d.GetPayload())); err != nil {
				return err
			}
			answer.Outcomes = append(answer.Outcomes, &appv1.Outcome{DeliveryId: d.GetId(), Result: appv1.Result_RESULT_CONFIRMED})
		}
	}
}

// handle takes a moment for a job, or, for a job with the payload "wait", until there is a file "go".
func handle(dir, id, payload string) error {
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	<-pause.C
	if payload == "wait" {
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
	_, err = fmt.Fprintln(file, id)
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
