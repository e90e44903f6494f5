package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectPatience bounds the making of a connection where connect_timeout does not, and then, once more, the setting up of its session.
	connectPatience = 10 * time.Second
	// pingPatience bounds the question whether an idle connection still works.
	pingPatience = 5 * time.Second
)

// connect makes the pool; it does not wait for a connection.
func connect(ctx context.Context, options Options) (*pgxpool.Pool, concealer, error) {
	config, err := pgxpool.ParseConfig(options.ConnString)
	if err != nil || options.ConnString == "" {
		return nil, concealer{}, ErrConnectionString // the cause quotes the string
	}
	if options.MaxConnections > 0 {
		config.MaxConns = int32(min(options.MaxConnections, 1<<16))
	}
	config.MaxConns = max(config.MaxConns, minConnections)
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "workpulling"
	}
	config.ConnConfig.OnNotice = note
	// The pool makes connections without the caller's context. Each takes up one of its few places until it is made or given up.
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectPatience)
	config.PingTimeout = pingPatience
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, config.ConnConfig.ConnectTimeout)
		defer cancel()
		takeVectors(conn.TypeMap())
		return settle(ctx, conn)
	}
	hide := concealer{password: config.ConnConfig.Password}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, concealer{}, hide.conceal(fmt.Errorf("making the connection pool: %w", err))
	}
	return pool, hide, nil
}

// The settings of every session. Users may set all of them.
const (
	// Committed means flushed. remote_apply promises more and stays.
	durable = `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')`

	// A client that vanished without a word leaves its transaction, and with it the flow's lock, after this long. A bound on statements
	// that somebody set for the role or the database would end the load of a long backlog each time; callers have bounds of their own.
	impatient = `SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '60s'; SET statement_timeout = 0; SET default_transaction_isolation = 'read committed'`

	// All statements of the job path find their rows by an index. A plan made while the tables were small, or before anybody
	// analysed them, must not say otherwise later; nor is any of them worth compiling.
	indexed = `SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off; SET jit = off`
)

// helpful settings are not there on every platform; they make the server notice sooner that its client is gone.
var helpful = []string{
	`SET client_connection_check_interval = '5s'`,
	`SET tcp_keepalives_idle = 5`, `SET tcp_keepalives_interval = 5`, `SET tcp_keepalives_count = 3`,
	`SET tcp_user_timeout = '15s'`,
}

// noted is where a connection keeps the last warning of the server.
const noted = "workpulling warning"

// note keeps warnings. One that comes with a commit says that it did not wait for its standby to the end, because a person or the
// server broke that off: the commit then counts as one whose answer was lost.
func note(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[noted] = notice.Message
	}
}

// heed returns the warning that a connection keeps, and forgets it.
func heed(conn *pgconn.PgConn) string {
	warning, _ := conn.CustomData()[noted].(string)
	delete(conn.CustomData(), noted)
	return warning
}

func settle(ctx context.Context, conn *pgx.Conn) error {
	var fsync string
	var standby bool
	if err := conn.QueryRow(ctx, `SELECT current_setting('fsync'), pg_is_in_recovery()`, pgx.QueryExecModeExec).Scan(&fsync, &standby); err != nil {
		return err
	}
	if fsync != "on" {
		return ErrNotDurable
	}
	if standby {
		return errStandby
	}
	for _, text := range []string{durable, impatient, indexed} {
		if _, err := conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
			return fmt.Errorf("setting up the session: %w", err)
		}
	}
	for _, text := range helpful {
		if _, err := conn.PgConn().Exec(ctx, text).ReadAll(); err != nil && conn.IsClosed() {
			return fmt.Errorf("setting up the session: %w", err)
		}
	}
	return nil
}
