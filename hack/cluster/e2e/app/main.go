// Command app is what the pods of the end-to-end test run.
//
//	app serve ADDRESS        answer GET / with the host name, and GET and PUT /data/… with files of /data
//	app get URL              print what is there
//	app wait                 do nothing until told to stop
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Args = append(os.Args, "wait")
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func run(command string, args []string) error {
	switch {
	case command == "serve" && len(args) == 1:
		return serve(args[0])
	case command == "get" && len(args) == 1:
		return get(args[0])
	case command == "wait":
		<-told()
		return nil
	default:
		return fmt.Errorf("%s: unknown command or wrong number of arguments", command)
	}
}

func told() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return signals
}

func serve(address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		name, _ := os.Hostname()
		fmt.Fprint(w, name)
	})
	mux.HandleFunc("GET /data/{name}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, path.Join("/data", r.PathValue("name")))
	})
	mux.HandleFunc("PUT /data/{name}", func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.WriteFile(path.Join("/data", r.PathValue("name")), content, 0o600)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Addr: address, Handler: mux}
	go func() { <-told(); server.Close() }()
	fmt.Println("serving at", address)
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func get(url string) error {
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
