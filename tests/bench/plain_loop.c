/* OK-FEB with projected eviction, recursive least squares behind it and scaling before it, in plain loops: see plain.py. */
#include <math.h>
#include <string.h>

enum { DIM = 40, RANK = 10, BUDGET = 15, ROOM = 16, WINDOW = 100 };

typedef struct {
    double support[ROOM][DIM], factor[ROOM][RANK], recent[WINDOW];
    double solver[RANK][RANK], rotation[RANK][RANK], inner[RANK][RANK];
    double weights[RANK], P[RANK][RANK], mean[DIM], squares[DIM];
    double age[ROOM], held, kept, seen;
} Key;

static double kernel(const double *a, const double *b) {
    double total = 0;
    for (int i = 0; i < DIM; i++) total += (a[i] - b[i]) * (a[i] - b[i]);
    return exp(-total / (2.0 * DIM));
}

static int cholesky(int n, int room, const double *M, double ridge, double jitter, double lost, double *L) {
    int kept = n;
    for (int j = 0; j < n; j++) {
        double start = M[j * room + j] + ridge, pivot = start + jitter * M[j * room + j];
        for (int t = 0; t < j; t++) pivot -= L[j * room + t] * L[j * room + t];
        int good = pivot > lost * start;
        double root = good ? sqrt(pivot) : 0.0, scale = good ? 1.0 / root : 0.0;
        kept -= !good;
        L[j * room + j] = root;
        for (int i = j + 1; i < n; i++) {
            double total = M[i * room + j];
            for (int t = 0; t < j; t++) total -= L[i * room + t] * L[j * room + t];
            L[i * room + j] = total * scale;
        }
    }
    return kept;
}

static void solve(double L[RANK][RANK], double *b) {
    for (int i = 0; i < RANK; i++) {
        double total = b[i];
        for (int j = 0; j < i; j++) total -= L[i][j] * b[j];
        b[i] = L[i][i] != 0.0 ? total / L[i][i] : 0.0;
    }
}

static void settle(Key *key, int m, double gram[ROOM][ROOM], double image[ROOM][RANK], double ridge) {
    memset(image, 0, ROOM * RANK * sizeof(double));
    memset(key->inner, 0, sizeof key->inner);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            for (int c = 0; c < RANK; c++) image[i][c] += gram[i][j] * key->factor[j][c];
    for (int i = 0; i < m; i++)
        for (int a = 0; a < RANK; a++)
            for (int c = 0; c < RANK; c++) key->inner[a][c] += key->factor[i][a] * image[i][c];
    cholesky(RANK, RANK, &key->inner[0][0], ridge, 0.0, 1e-12, &key->solver[0][0]);
    cholesky(RANK, RANK, &key->inner[0][0], 0.0, 0.0, 1e-8, &key->rotation[0][0]);
}

static int evict(Key *key, int m, double gram[ROOM][ROOM], double trial[ROOM][RANK]) {
    double L[ROOM][ROOM], inverse[ROOM][ROOM], least = INFINITY;
    int n = m + 1, leaver = 0;
    if (cholesky(n, ROOM, &gram[0][0], 0.0, 1e-10, 0.0, &L[0][0]) < n) return -1;
    for (int j = 0; j < n; j++) { /* inverse = L^-1' */
        for (int i = j; i < n; i++) {
            double total = i == j;
            for (int t = j; t < i; t++) total -= L[i][t] * inverse[j][t];
            inverse[j][i] = total / L[i][i];
        }
    }
    for (int i = 0; i < n; i++) {
        double cost = 0, spread = 0, eta = i < m ? pow(0.97, key->age[i] + 1) : 1.0;
        for (int c = 0; c < RANK; c++) cost += trial[i][c] * trial[i][c];
        for (int t = i; t < n; t++) spread += inverse[i][t] * inverse[i][t];
        cost = cost * eta * eta / spread;
        if (cost < least) least = cost, leaver = i;
    }
    double spread = 0;
    for (int t = leaver; t < n; t++) spread += inverse[leaver][t] * inverse[leaver][t];
    for (int j = 0; j < n; j++) {
        if (j == leaver) continue;
        double shared = 0;
        for (int t = j > leaver ? j : leaver; t < n; t++) shared += inverse[j][t] * inverse[leaver][t];
        for (int c = 0; c < RANK; c++) trial[j][c] -= shared / spread * trial[leaver][c];
    }
    return leaver;
}

static void carry(Key *key, double T[RANK][RANK], double delta) {
    double weights[RANK] = {0}, half[RANK][RANK] = {{0}};
    for (int i = 0; i < RANK; i++)
        for (int j = 0; j < RANK; j++) {
            weights[i] += T[i][j] * key->weights[j];
            for (int c = 0; c < RANK; c++) half[i][c] += T[i][j] * key->P[j][c];
        }
    memcpy(key->weights, weights, sizeof weights);
    for (int i = 0; i < RANK; i++)
        for (int j = 0; j <= i; j++) {
            double total = i == j ? delta : 0.0;
            for (int t = 0; t < RANK; t++) total += (half[i][t] - delta * T[i][t]) * T[j][t];
            key->P[i][j] = key->P[j][i] = total;
        }
}

static void admit(Key *key, const double *x, const double *k, const double *b, const double *q, double ridge, double delta) {
    double gram[ROOM][ROOM], image[ROOM][RANK] = {{0}}, trial[ROOM][RANK], turned[RANK][RANK] = {{0}}, length2 = 0, size2 = 0;
    int m = (int)key->held, leaver = -1, n = m + 1;
    for (int i = 0; i < m; i++)
        for (int j = 0; j <= i; j++) gram[i][j] = gram[j][i] = kernel(key->support[i], key->support[j]);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            for (int c = 0; c < RANK; c++) image[i][c] += gram[i][j] * key->factor[j][c];
    for (int i = 0; i < m; i++)
        if (1.0 + gram[i][i] - 2.0 * k[i] <= 1e-12) return;
    for (int c = 0; c < RANK; c++) length2 += q[c] * q[c];
    double step = 1.0 / fmax(sqrt(length2), 0.05);
    for (int i = 0; i < n; i++) {
        double along = i < m ? 0.0 : -1.0;
        for (int c = 0; i < m && c < RANK; c++) along += key->factor[i][c] * q[c];
        for (int c = 0; c < RANK; c++) trial[i][c] = (i < m ? key->factor[i][c] : 0.0) - step * along * q[c];
        gram[m][i] = gram[i][m] = i < m ? k[i] : 1.0;
    }
    if (m == BUDGET) leaver = evict(key, m, gram, trial);
    memcpy(key->support[m], x, sizeof key->support[m]);
    memcpy(image[m], b, sizeof image[m]);
    for (int i = 0; i < m; i++) key->age[i] += 1;
    key->age[m] = 0;
    memcpy(key->factor, trial, n * sizeof trial[0]);
    if (leaver >= 0) {
        n = m;
        for (int i = leaver; i < m; i++) {
            memcpy(key->support[i], key->support[i + 1], sizeof key->support[i]);
            memcpy(key->factor[i], key->factor[i + 1], sizeof key->factor[i]);
            memcpy(image[i], image[i + 1], sizeof image[i]);
            memcpy(gram[i], gram[i + 1], sizeof gram[i]);
            key->age[i] = key->age[i + 1];
        }
        for (int i = 0; i < m; i++)
            for (int j = leaver; j < m; j++) gram[i][j] = gram[i][j + 1];
    }
    key->held = n;
    for (int i = 0; i < n; i++)
        for (int a = 0; a < RANK; a++)
            for (int c = 0; c < RANK; c++) turned[a][c] += key->factor[i][a] * image[i][c];
    for (int a = 0; a < RANK; a++) solve(key->rotation, turned[a]);
    settle(key, n, gram, image, ridge);
    for (int i = 0; i < RANK; i++) {
        double pivot = key->rotation[i][i];
        for (int c = 0; c < RANK; c++) turned[i][c] = pivot != 0.0 ? turned[i][c] / pivot : 0.0;
        for (int j = i + 1; pivot != 0.0 && j < RANK; j++)
            for (int c = 0; c < RANK; c++) turned[j][c] -= key->rotation[j][i] * turned[i][c];
    }
    for (int a = 0; a < RANK; a++)
        for (int c = 0; c < RANK; c++) size2 += turned[a][c] * turned[a][c];
    double shrink = size2 > RANK ? sqrt(RANK / size2) : 1.0;
    for (int a = 0; a < RANK; a++)
        for (int c = 0; c < RANK; c++) turned[a][c] *= shrink;
    carry(key, turned, delta);
}

void rows(Key *keys, const long *slots, const double *X, const double *y, long n, double ridge, double delta, double *said) {
    for (long at = 0; at < n; at++) {
        Key *key = keys + slots[at];
        double x[DIM], k[ROOM], b[RANK] = {0}, q[RANK], u[RANK] = {0}, Pz[RANK] = {0};
        for (int i = 0; i < DIM; i++) {
            double deviation = sqrt(key->squares[i] / fmax(key->seen, 1)), gap = X[at * DIM + i] - key->mean[i];
            x[i] = deviation > 1e-10 * fabs(key->mean[i]) ? gap / deviation : 0.0;
            key->mean[i] += gap / (key->seen + 1);
            key->squares[i] += gap * (X[at * DIM + i] - key->mean[i]);
        }
        key->seen += 1;
        int m = (int)key->held, kept = (int)key->kept;
        for (int i = 0; i < m; i++) k[i] = kernel(key->support[i], x);
        for (int i = 0; i < m; i++)
            for (int c = 0; c < RANK; c++) b[c] += k[i] * key->factor[i][c];
        memcpy(q, b, sizeof q);
        solve(key->solver, q);
        for (int i = RANK - 1; i >= 0; i--) {
            q[i] = key->solver[i][i] != 0.0 ? q[i] / key->solver[i][i] : 0.0;
            for (int j = 0; j < i; j++) q[j] -= key->solver[i][j] * q[i];
        }
        double along = 0, within = 0, prediction = 0, spread = 0, mean = 0;
        for (int a = 0; a < RANK; a++) {
            double total = 0;
            for (int c = 0; c < RANK; c++) total += key->inner[a][c] * q[c];
            along += b[a] * q[a];
            within += q[a] * total;
            for (int c = a; c < RANK; c++) u[a] += key->rotation[c][a] * q[c];
        }
        double ls_error = fmax(1.0 - 2.0 * along + within, 0.0);
        for (int i = 0; i < RANK; i++) prediction += u[i] * key->weights[i];
        said[at] = prediction;
        for (int i = 0; i < RANK; i++)
            for (int j = 0; j < RANK; j++) Pz[j] += key->P[i][j] * u[i];
        for (int i = 0; i < RANK; i++) spread += u[i] * Pz[i];
        for (int i = 0; i < RANK; i++) key->weights[i] += Pz[i] / (1.0 + spread) * (y[at] - prediction);
        for (int i = 0; i < RANK; i++)
            for (int j = 0; j < RANK; j++) key->P[i][j] -= Pz[i] * Pz[j] / (1.0 + spread);
        for (int i = 0; i < kept; i++) mean += key->recent[i];
        int captured = m == BUDGET && ls_error < mean / kept;
        if (kept == WINDOW) memmove(key->recent, key->recent + 1, --kept * sizeof(double));
        key->recent[kept] = ls_error;
        key->kept = kept + 1;
        if (!captured) admit(key, x, k, b, q, ridge, delta);
    }
}
