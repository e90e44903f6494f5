// Command outbox takes orders and submits a job for each, through an outbox: the order and the job are written in one transaction, and a
// job that is marked as stored is never submitted again. It may be killed at any point and started again with the same arguments; it
// ends when everything is marked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/workpulling/workpulling"
)

func main() {
	path := flag.String("store", "orders.db", "the app's own database")
	orders := flag.Int("orders", 10, "how many orders to take")
	producer := flag.String("producer", "", "host:port of the flow's producer")
	ca := flag.String("ca", "", "certificate bundle that verifies it")
	name := flag.String("name", "", "name in its certificate")
	token := flag.String("token", "", "file with the submitter's token")
	flag.Parse()
	store, err := openStore(*path)
	if err != nil {
		log.Fatal(err)
	}
	identity := workpulling.Identity{CAFile: *ca, ServerName: *name, Token: func(context.Context) (string, error) {
		raw, err := os.ReadFile(*token)
		return strings.TrimSpace(string(raw)), err
	}}
	client, err := workpulling.Dial(workpulling.Flow{Name: "orders", Address: *producer},
		workpulling.ClientOptions{Identity: identity, ManualAcknowledge: true})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = client.Run(context.Background()) }()
	for n := range *orders {
		if err := store.take(fmt.Sprintf("order-%d", n)); err != nil {
			log.Fatal(err)
		}
	}
	if err := publish(context.Background(), client, store); err != nil {
		log.Fatal(err)
	}
}

// submitter is what publish needs of a workpulling.Client.
type submitter interface {
	Submit(ctx context.Context, job workpulling.Job) (workpulling.Receipt, error)
}

// outbox is what it needs of the store.
type outbox interface {
	unmarked() ([]string, error)
	mark(id string) error
}

// publish submits what is not marked, under the same ids as ever. First the mark, then the acknowledgement: a crash between the two
// leaves a stored job that nobody asks for any more, and one before both leaves a job that is submitted again and recognised.
func publish(ctx context.Context, client submitter, store outbox) error {
	for {
		ids, err := store.unmarked()
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			receipt, err := client.Submit(ctx, workpulling.Job{ID: id, Payload: []byte("ship " + id)})
			if errors.Is(err, workpulling.ErrUnavailable) {
				continue // it may be stored or not: it stays in the outbox, and comes again
			}
			if err != nil {
				return fmt.Errorf("submitting %s: %w", id, err)
			}
			if err := store.mark(id); err != nil {
				return fmt.Errorf("marking %s: %w", id, err)
			}
			receipt.Acknowledge()
		}
	}
}

// Buckets of the store.
var (
	ordersBucket = []byte("orders")
	outboxBucket = []byte("outbox") // ids of jobs that are not marked
)

// store is the app's own database.
type store struct{ db *bbolt.DB }

func openStore(path string) (*store, error) {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(ordersBucket)
		if err == nil {
			_, err = tx.CreateBucketIfNotExists(outboxBucket)
		}
		return err
	})
	return &store{db}, err
}

// take writes an order and its job together, once: neither is there without the other.
func (s *store) take(id string) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket(ordersBucket).Get([]byte(id)) != nil {
			return nil
		}
		if err := tx.Bucket(ordersBucket).Put([]byte(id), []byte("taken")); err != nil {
			return err
		}
		return tx.Bucket(outboxBucket).Put([]byte(id), nil)
	})
}

func (s *store) unmarked() (ids []string, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(outboxBucket).ForEach(func(id, _ []byte) error {
			ids = append(ids, string(id))
			return nil
		})
	})
	return ids, err
}

// mark returns when it is durable that the job is stored.
func (s *store) mark(id string) error {
	return s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(outboxBucket).Delete([]byte(id)) })
}
