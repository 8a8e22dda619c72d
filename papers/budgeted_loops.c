/* The budgeted learners once more as plain C, one key, one target, gaussian kernel: what their speed is measured against.

said[t] is the score of row t before it was learned; chance[t] in [0, 1) says who leaves at row t. Each function gives how
many rows are stored at the end. S has room for m rows and one more.
*/

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MISTAKES, HINGE };

struct kept {
    double *S, *w, *k; /* stored rows (m + 1, d), their weights, the kernel row of x */
    int count, m, d;
    double gamma; /* 1 / (2 sigma^2) */
};

static struct kept none(int m, int d, double sigma) {
    struct kept f = {malloc(sizeof(double) * (m + 1) * d), malloc(sizeof(double) * (m + 1)),
                     malloc(sizeof(double) * (m + 1)), 0, m, d, 1.0 / (2.0 * sigma * sigma)};
    return f;
}

static int done(struct kept *f) {
    free(f->S), free(f->w), free(f->k);
    return f->count;
}

static double kernel(const struct kept *f, const double *a, const double *b) {
    double total = 0.0;
    for (int j = 0; j < f->d; j++) total += (a[j] - b[j]) * (a[j] - b[j]);
    return exp(-total * f->gamma);
}

static double score(struct kept *f, const double *x) {
    double total = 0.0;
    for (int i = 0; i < f->count; i++) f->k[i] = kernel(f, f->S + i * f->d, x);
    for (int i = 0; i < f->count; i++) total += f->w[i] * f->k[i];
    return total;
}

static void drop(struct kept *f, int i) {
    int later = f->count - i - 1;
    memmove(f->S + i * f->d, f->S + (i + 1) * f->d, sizeof(double) * later * f->d);
    memmove(f->w + i, f->w + i + 1, sizeof(double) * later);
    f->count--;
}

static void add(struct kept *f, const double *x, double weight) {
    memcpy(f->S + f->count * f->d, x, sizeof(double) * f->d);
    f->w[f->count++] = weight;
}

/* perceptron, kogd, norma (any = 0: the oldest leaves) and rbp (any = 1), bogd (makes_up = 1) */
int descent(const double *X, const double *y, const double *chance, double *said, int n, int d, int m, double sigma, int loss,
            double step, double keep, int any, int makes_up, double cap) {
    struct kept f = none(m, d, sigma);
    for (int t = 0; t < n; t++) {
        const double *x = X + (long)t * d;
        said[t] = score(&f, x);
        if (keep < 1.0)
            for (int i = 0; i < f.count; i++) f.w[i] *= keep;
        if (loss == MISTAKES ? y[t] * said[t] > 0.0 : y[t] * said[t] >= 1.0) continue;
        if (f.count == m) {
            drop(&f, any ? (int)(chance[t] * m) : 0);
            if (makes_up)
                for (int i = 0; i < f.count; i++) f.w[i] *= m / (m - 1.0);
        }
        add(&f, x, step * y[t]);
        if (cap > 0.0) {
            double top = 0.0;
            for (int i = 0; i < f.count; i++) top = fmax(top, fabs(f.w[i]));
            if (top > cap)
                for (int i = 0; i < f.count; i++) f.w[i] *= cap / top;
        }
    }
    return done(&f);
}

int forgetron(const double *X, const double *y, double *said, int n, int d, int m, double sigma) {
    struct kept f = none(m, d, sigma);
    double spent = 0.0;
    int wrong = 0;
    for (int t = 0; t < n; t++) {
        const double *x = X + (long)t * d;
        said[t] = score(&f, x);
        if (y[t] * said[t] > 0.0) continue;
        wrong++;
        add(&f, x, y[t]);
        if (f.count <= m) continue;
        double size = fabs(f.w[0]), at = 0.0, phi = 1.0;
        for (int i = 0; i < f.count; i++) at += f.w[i] * kernel(&f, f.S, f.S + i * d);
        double mu = f.w[0] < 0.0 ? -at : f.w[0] > 0.0 ? at : 0.0;
        double a = size * size - 2.0 * size * mu, b = 2.0 * size, left = 15.0 / 32.0 * wrong - spent;
        if (a + b > left) phi = fmin(1.0, 2.0 * left / (b + sqrt(fmax(b * b + 4.0 * a * left, 0.0))));
        spent += (a * phi + b) * phi;
        for (int i = 0; i < f.count; i++) f.w[i] *= phi;
        drop(&f, 0);
    }
    return done(&f);
}

/* caution < 0: projectron; else the U of projectron_pp. P = K^-1 grows by a row and column with each sample. */
int projectron(const double *X, const double *y, double *said, int n, int d, int m, double sigma, double caution) {
    struct kept f = none(m, d, sigma);
    double *P = calloc((size_t)m * m, sizeof(double)), *to = malloc(sizeof(double) * m);
    for (int t = 0; t < n; t++) {
        const double *x = X + (long)t * d;
        said[t] = score(&f, x);
        double lack = 1.0 - y[t] * said[t], length2 = 0.0;
        if (lack <= 0.0 || (lack < 1.0 && caution < 0.0)) continue;
        for (int i = 0; i < f.count; i++) {
            to[i] = 0.0;
            for (int j = 0; j < f.count; j++) to[i] += P[i * m + j] * f.k[j];
        }
        for (int i = 0; i < f.count; i++) length2 += to[i] * f.k[i];
        double delta = 1.0 - length2, tau = 1.0;
        if (lack >= 1.0 && f.count < m) {
            for (int i = 0; i < f.count; i++)
                for (int j = 0; j < f.count; j++) P[i * m + j] += to[i] * to[j] / delta;
            for (int i = 0; i < f.count; i++) P[i * m + f.count] = P[f.count * m + i] = -to[i] / delta;
            P[f.count * m + f.count] = 1.0 / delta;
            add(&f, x, y[t]);
            continue;
        }
        if (lack < 1.0) {
            tau = fmin(lack / length2, 1.0);
            if (tau * (2.0 * lack - tau * length2 - 2.0 * caution * sqrt(fmax(delta, 0.0))) < 0.0) continue;
        }
        for (int i = 0; i < f.count; i++) f.w[i] += y[t] * tau * to[i];
    }
    free(P), free(to);
    return done(&f);
}

int bpas(const double *X, const double *y, double *said, int n, int d, int m, double sigma, double C) {
    struct kept f = none(m, d, sigma);
    for (int t = 0; t < n; t++) {
        const double *x = X + (long)t * d;
        said[t] = score(&f, x);
        double lack = 1.0 - y[t] * said[t];
        if (lack <= 0.0) continue;
        double tau = y[t] * fmin(C, lack), least = INFINITY;
        if (f.count < m) {
            add(&f, x, tau);
            continue;
        }
        int leaving = 0;
        for (int i = 0; i < m; i++) {
            double beta = f.w[i] * f.k[i] + tau;
            double moved = f.w[i] * f.w[i] + beta * beta - 2.0 * f.w[i] * beta * f.k[i];
            double cost = 0.5 * moved + C * fmax(0.0, 1.0 - y[t] * (said[t] - f.w[i] * f.k[i] + beta));
            if (cost < least) least = cost, leaving = i;
        }
        double beta = f.w[leaving] * f.k[leaving] + tau;
        drop(&f, leaving);
        add(&f, x, beta);
    }
    return done(&f);
}
