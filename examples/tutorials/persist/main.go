// Command persist handles jobs by appending each to a journal. It answers when the line is on disk, and not before: the answer is what
// makes the job be forgotten.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where jobs are posted to")
	path := flag.String("journal", "journal", "file that the effects are appended to")
	early := flag.Bool("answer-first", false, "answer first and write a hundred lines at a time: the mistake")
	flag.Parse()
	file, err := os.OpenFile(*path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*listen, &journal{file: file, early: *early}))
}

// journal is a file with a line for each job.
type journal struct {
	early bool

	mu     sync.Mutex
	file   *os.File
	unsure []string // lines that were answered for and are not on disk
}

func (j *journal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the job broke off", http.StatusBadRequest)
		return
	}
	line := fmt.Sprintf("%s %s\n", r.Header.Get("Ce-Workpullingmessageid"), body)
	if j.early {
		err = j.promise(line)
	} else {
		err = j.record(line)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError) // a failure: the job comes again
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// record returns when the lines are on disk.
func (j *journal) record(lines ...string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteString(strings.Join(lines, "")); err != nil {
		return err
	}
	return j.file.Sync()
}

// promise is the mistake: it says yes to what is in memory only. A hundred lines at a time cost one sync, which looks like a bargain.
func (j *journal) promise(line string) error {
	j.mu.Lock()
	j.unsure = append(j.unsure, line)
	lines := j.unsure
	if len(lines) == 100 {
		j.unsure = nil
	}
	j.mu.Unlock()
	if len(lines) < 100 {
		return nil
	}
	return j.record(lines...)
}
