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
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && contradicts(refused.Code) {
		err = fmt.Errorf("%w: %w", queue.ErrConflict, err)
	}
	if code := codeOf(err); code == diskFull || code == readOnly {
		err = fmt.Errorf("%w: %w", queue.ErrFull, err)
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

// What the server says of a transaction that does not happen. It says so before a commit.
const (
	moved     = "22012" // of the division by zero in statements.turn: it rests on what is not so
	duplicate = "23505" // an id that was taken for new
	diskFull  = "53100"
	readOnly  = "25006" // by a setting, such as providers choose when the disk is full
)

// codeOf is the code of a server's error. What ends its process is none: a server that finds no room for its write-ahead log panics with the
// code of a full disk, and may have the commit in it by then.
func codeOf(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.SeverityUnlocalized == "ERROR" {
		return refused.Code
	}
	return ""
}

// errStandby says the same of a server that has to be promoted first. It would also answer reads, with what it has heard so far.
var errStandby = fmt.Errorf("%w: the server is a standby", queue.ErrFull)

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
