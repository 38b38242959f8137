/* native/spec/math.h - exp, log, sine and cosine of our own, in doubles.
 *
 * C libraries differ in the last bits; the same model must compute the same on every system.
 * Only additions, multiplications and divisions are used, which are the same everywhere.
 */
#ifndef NATIVE_SPEC_MATH_H
#define NATIVE_SPEC_MATH_H

#define NATIVE_PI 3.14159265358979323846

/* About one unit in the last place; 0 below -745, infinite above 709. */
double native_exp(double x);
/* x > 0. */
double native_log(double x);
/* |x| up to 2^26: the angles of positions. */
void native_sincos(double x, double *sine, double *cosine);

#endif
