package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpulling/workpulling/runtime/queue"
)

// explain gives an error its place in the contract: the end of the caller's context, a conflict, or retriable.
func (q *Queue) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case queue.Terminal(err):
		return err
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case contradicts(refused.Code):
			err = fmt.Errorf("%w: %w", queue.ErrConflict, err)
		case isFull(refused.Code):
			err = fmt.Errorf("%w: %w", queue.ErrFull, err)
		}
	}
	return q.hide.conceal(err)
}

// contradicts tells whether a server's error code says that the data or the tables are not what they must be. All others
// (connection, resources, operator intervention, rights, serialisation, deadlock) may be gone at the next try.
func contradicts(code string) bool {
	switch code {
	case "42P01", "42703", "42804", "42883", "3F000": // a table, column, type, function or schema is gone or another
		return true
	case "XX001", "XX002": // data or an index is damaged
		return true
	}
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") // a value or a constraint
}

// isFull tells whether a server's error code says that it writes nothing more for now. It says so before a commit, which ends the transaction.
func isFull(code string) bool {
	return code == "53100" || // disk_full
		code == "25006" // read_only_sql_transaction: a standby, or what providers set when the disk is full
}

// concealer keeps the connection string out of errors.
type concealer struct{ password string }

// conceal cuts what the driver says about the connection's settings off an error, and the whole text if it shows the password.
func (c concealer) conceal(err error) error {
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = fmt.Errorf("connecting: %w", failed.Unwrap())
	}
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		return ErrConnectionString
	}
	if c.password != "" && strings.Contains(err.Error(), c.password) {
		return errors.New("postgres queue: an error whose text is not shown, because it holds the password")
	}
	return err
}
