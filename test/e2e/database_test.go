//go:build e2e

package e2e

import (
	"context"
	"os"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/test/harness"
)

// database is a PostgreSQL server beside the cluster.
type database struct{ *harness.Database }

// role and jobs are the user and the database of a flow.
const (
	role = "invoices"
	jobs = "jobs"
)

// newDatabase starts a server that ends with the spec. Call it before newBed, so that it outlives the flows.
func newDatabase(ctx context.Context) *database {
	GinkgoHelper()
	if os.Getenv("CLUSTER_NAME") == "" {
		Skip("pods reach a database of this machine in a local cluster only")
	}
	d, settings, err := harness.NewDatabase(ctx, kubectl, jobs, role)
	Expect(err).NotTo(HaveOccurred())
	d.Server = postgrestest.Start(GinkgoTB(), settings...)
	Expect(d.Encrypt(ctx, "first")).To(Succeed())
	return &database{d}
}

func (d *database) exec(ctx context.Context, database, sql string) {
	GinkgoHelper()
	Expect(d.Exec(ctx, database, sql)).To(Succeed())
}

// disconnect ends every session of a role.
func (d *database) disconnect(ctx context.Context, role string) {
	GinkgoHelper()
	d.exec(ctx, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
}

// sessions counts the sessions of a role.
func (d *database) sessions(ctx context.Context, role string) (n int, err error) {
	conn, err := pgx.Connect(ctx, d.SuperURL("postgres"))
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", role).Scan(&n)
	return n, err
}

// secret is the Secret that the sample names.
func (d *database) secret(ctx context.Context, b *bed, dsn string) {
	GinkgoHelper()
	Expect(d.Secret(ctx, kubectl, b.namespace, "invoices-db", dsn)).To(Succeed())
}
