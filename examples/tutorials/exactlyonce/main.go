// Command exactlyonce handles jobs that move money, in a database that all workers share. The MessageID and the effect are written in one
// transaction, so that a job that comes again, to whichever worker, finds that it is done.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where jobs are posted to")
	database := flag.String("database", "", "connection string of PostgreSQL")
	memory := flag.Bool("remember-in-memory", false, "remember done jobs in this process only: the mistake")
	flag.Parse()
	pool, err := pgxpool.New(context.Background(), *database)
	if err != nil {
		log.Fatal(err)
	}
	bank := &bank{pool: pool}
	if *memory {
		bank.seen = map[string]bool{}
	}
	log.Fatal(http.ListenAndServe(*listen, bank))
}

// schema is what the tables look like. The primary key of done is what makes the effect happen once.
const schema = `
CREATE TABLE accounts (name text PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE done (message_id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());`

type bank struct {
	pool *pgxpool.Pool

	mu   sync.Mutex
	seen map[string]bool // the mistake, nil without it
}

type payment struct {
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p payment
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || p.Account == "" {
		http.Error(w, "no payment", http.StatusUnprocessableEntity) // it will never be one: straight to the dead letters
		return
	}
	id := r.Header.Get("Ce-Workpullingmessageid")
	pay := b.once
	if b.seen != nil {
		pay = b.unlessSeen
	}
	if err := pay(r.Context(), id, p); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError) // a failure: the job comes again
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// once pays, unless some worker has done so before. A second one that comes at the same time waits for the first at the primary key.
func (b *bank) once(ctx context.Context, id string, p payment) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO done (message_id) VALUES ($1) ON CONFLICT DO NOTHING`, id)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return pay(ctx, tx, p)
	})
}

// unlessSeen is the mistake: the job may come again to another worker, or to this one after a restart, and neither knows of it.
func (b *bank) unlessSeen(ctx context.Context, id string, p payment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[id] {
		return nil
	}
	if err := pay(ctx, b.pool, p); err != nil {
		return err
	}
	b.seen[id] = true
	return nil
}

// pay is the effect.
func pay(ctx context.Context, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, p payment) error {
	var balance int64
	err := db.QueryRow(ctx, `INSERT INTO accounts VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET balance = accounts.balance + excluded.balance RETURNING balance`, p.Account, p.Amount).Scan(&balance)
	if err != nil {
		return fmt.Errorf("paying %s: %w", p.Account, err)
	}
	return nil
}
